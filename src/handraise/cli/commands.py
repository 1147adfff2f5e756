"""Every command, and how they end.

A command is imported only when it is used, and so is what commands have in common: those that need the server take
seconds, and neither `handraise ask` in a script nor `handraise --version` needs them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from handraise import __version__

COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "ask": ("ask_commands", "ask", "Ask a person, and print the answer."),
    "wait": (
        "ask_commands",
        "wait_for",
        "Wait until a question is settled, and print the answer; ends with the same codes as `ask`.",
    ),
    "inbox": ("inbox_command", "inbox", "Show the questions that you may answer, live, and answer them."),
    "list": (
        "question_commands",
        "list_questions",
        "List pending questions, most urgent first. With the key of an agent, its own.",
    ),
    "search": (
        "search_command",
        "search",
        "Find pending and settled questions by words, the newest first. With the key of an agent, its own.",
    ),
    "show": (
        "question_commands",
        "show",
        "Show a question: who asks, what, why, its status, and the conversation about it.",
    ),
    "history": ("question_commands", "history", "Show everything that happened to a question, oldest first."),
    "answer": (
        "answer_command",
        "answer",
        "Answer a question. Without a value, it is shown in the terminal and you are asked. With --all, answer several.",
    ),
    "thread": (
        "thread_commands",
        "thread",
        "Show what people and the agent have written about a question, oldest first.",
    ),
    "ask-back": (
        "thread_commands",
        "ask_back",
        "Ask the agent something about its question, which stays pending. Only if the agent can reply.",
    ),
    "note": (
        "thread_commands",
        "note",
        "Note something for the other people who may answer. Agents do not see its text.",
    ),
    "reply": (
        "thread_commands",
        "reply",
        "Reply to what people asked about your question. Who had approved it must approve it again.",
    ),
    "files": (
        "file_commands",
        "files",
        "List the files of a question, of its conversation and of its answers.",
    ),
    "save": (
        "file_commands",
        "save",
        "Save a file of a question. It is untrusted: nobody has looked into it.",
    ),
    "decline": (
        "question_commands",
        "decline",
        "Decline to answer a question: it ends for everyone. To leave it to the others: not-for-me.",
    ),
    "send-back": (
        "sharing_commands",
        "send_back",
        "Send a question back, so that the agent changes something and asks again. This approves nothing.",
    ),
    "take": (
        "sharing_commands",
        "take",
        "Say that you are working on the answer, for ten minutes. Others see it and may still answer.",
    ),
    "release": ("sharing_commands", "release", "Say that you are not working on the answer any more."),
    "bring-in": (
        "sharing_commands",
        "bring_in",
        "Have other people or groups asked too. They may answer like you.",
    ),
    "hand-over": (
        "sharing_commands",
        "hand_over",
        "Have other people or groups asked, and take the question out of your inbox.",
    ),
    "snooze": (
        "sharing_commands",
        "snooze",
        "Take a question out of your inbox until a time. Nobody else notices.",
    ),
    "not-for-me": (
        "sharing_commands",
        "not_for_me",
        "Take a question out of your inbox for good. The others are still asked.",
    ),
    "put-back": (
        "sharing_commands",
        "put_back",
        "Put a question that you took out of your inbox back into it.",
    ),
    "take-back": (
        "question_commands",
        "take_back",
        "Take back an approval that the agent has not used. For people who approved it and administrators.",
    ),
    "report": (
        "question_commands",
        "report",
        "Report what came of the answer to a question that you asked. A report is final.",
    ),
    "withdraw": (
        "question_commands",
        "withdraw",
        "Withdraw a question that you asked or, as an administrator, those of an agent.",
    ),
    "watch": ("question_commands", "watch", "Follow what happens to all questions, live, until Ctrl+C."),
    "sign-in": ("sign_in_commands", "sign_in", "Sign in to a server with a link."),
    "sign-out": (
        "sign_in_commands",
        "sign_out",
        "Sign out of the server at HANDRAISE_URL: the session ends on the server and here.",
    ),
    "demo": (
        "demo_command",
        "demo",
        "See how it works in a minute: agents ask, you answer, they continue.",
    ),
    "serve": ("serve_command", "serve", "Run the server."),
    "mcp": ("mcp_command", "mcp", "Let an MCP client ask people, request approvals, and collect answers."),
    "grants": ("grant_commands", "app", "Grants: remembered approvals, until they end or are revoked."),
    "standing-answers": (
        "standing_answer_commands",
        "app",
        "Standing answers: answers that people keep for a topic, until they end or are revoked.",
    ),
    "keys": ("key_commands", "app", "Keys of agents. With a key, an agent can ask; it cannot answer."),
    "people": ("people_commands", "app", "People who answer, and how they sign in."),
    "groups": (
        "people_commands",
        "groups",
        "Groups of people: any of them may answer a question to group:NAME.",
    ),
    "apply": (
        "config_commands",
        "apply",
        "Make a workspace what a file says: people, groups, addresses, routing, policy, retention and quotas.",
    ),
    "export-config": (
        "config_commands",
        "export_config",
        "Write the configuration of a workspace as the file that `handraise apply` reads, without secrets.",
    ),
    "export": ("export_command", "app", "Export answers as data, or a whole workspace as a file."),
    "import": (
        "workspace_commands",
        "import_file",
        "Import a workspace into a store that does not have it.",
    ),
    "audit": (
        "audit_commands",
        "app",
        "The audit trail: events sealed in a chain that shows whether anything was changed.",
    ),
    "receipt": (
        "receipt_commands",
        "app",
        "Receipts: signed proof of an approval, which the place that executes the action checks and uses once.",
    ),
    "away": (
        "away_commands",
        "away",
        "Say that you are away, until when, and who answers for you. Without options, show whether you are.",
    ),
    "back": ("away_commands", "back", "Say that you are back. New questions go to you alone again."),
    "stop": (
        "stop_commands",
        "stop",
        "Stop an agent, a tool, a tool of an agent, or without both the whole workspace.",
    ),
    "resume": (
        "stop_commands",
        "resume",
        "End a stop: by its id, or by exactly the agent and tool that were stopped.",
    ),
    "policy": (
        "policy_commands",
        "app",
        "Policies: rules with which a workspace decides which questions need whom.",
    ),
    "retention": (
        "retention_commands",
        "retention",
        "Retention: how long a workspace keeps settled questions.",
    ),
    "hold": ("retention_commands", "holds", "Legal holds: nothing under a hold is removed or erased."),
    "erase": (
        "retention_commands",
        "erase",
        "Permanently erase a person, with every question that names them or that they took part in, or single questions.",
    ),
    "migrate": ("store_commands", "migrate", "Upgrade the schema to this release."),
    "doctor": ("store_commands", "doctor", "Check the store and show what it promises."),
}
"""For each command or group of commands: its module, its name there, and its line in the list of commands."""


_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def app_with(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command `handraise` with these commands."""
    app = _empty_app()
    for name in names:
        _add(app, name)
    return app


def app_for(line: Sequence[str]) -> typer.Typer:
    """The command with the subcommand that a command line names, or with all of them if it names none."""
    if line[:1] and line[0] in COMMANDS:
        return app_with(line[:1])
    app = _empty_app()
    completes = "_HANDRAISE_COMPLETE" in os.environ
    for name in COMMANDS:
        if not (completes and _add_if_installed(app, name)):
            app.command(name, help=COMMANDS[name][2], context_settings=_ANYTHING)(_load_and_run)
    return app


def run(app: typer.Typer) -> None:
    """Run the command line. An expected error is one sentence, without a traceback."""
    try:
        app(prog_name="handraise")
    except Exception as error:
        from handraise.cli.exit_codes import EXPECTED  # noqa: PLC0415

        if not isinstance(error, EXPECTED):
            raise
        _exit_with(error)


def _exit_with(error: Exception) -> NoReturn:
    from handraise.cli.exit_codes import exit_of  # noqa: PLC0415
    from handraise.cli.terminal_texts import shown_lines  # noqa: PLC0415

    with _terminal_language():
        text, code = exit_of(error)
    typer.echo("\n".join(shown_lines(text)), err=True)
    sys.exit(code)


def _terminal_language() -> AbstractContextManager[None]:
    from handraise.cli.terminal_locale import terminal_locale  # noqa: PLC0415
    from handraise.presentation.translation import use_locale  # noqa: PLC0415

    return use_locale(terminal_locale())


def _empty_app() -> typer.Typer:
    app = typer.Typer(
        name="handraise",
        help="Agents ask, people answer. The store is at HANDRAISE_URL, else one SQLite file in your data folder.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    return app


def _add(app: typer.Typer, name: str) -> None:
    """Add a command, with all that it needs."""
    module, called, _ = COMMANDS[name]
    found = getattr(import_module(f"handraise.cli.{module}"), called)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)


def _add_if_installed(app: typer.Typer, name: str) -> bool:
    """Whether a command could be added, because the extra that it needs is installed."""
    try:
        _add(app, name)
    except ImportError:
        return False
    return True


def _load_and_run(context: typer.Context) -> None:
    """Run a command that is not the first word of the command line."""
    app_with([str(context.info_name)])(prog_name="handraise")


def _version(wanted: bool) -> None:  # noqa: FBT001 -- how typer calls it
    if wanted:
        typer.echo(f"handraise {__version__}")
        raise typer.Exit


def _common(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version  # its callback has done it
    context.with_resource(_terminal_language())
