"""Every command, and how they end.

A command is loaded when it is given: those that need a server's parts take a second for that, and `handraise ask`, in a
script, needs none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from handraise import __version__
from handraise.cli.endings import EXPECTED, ending
from handraise.cli.wording import shown_lines

COMMANDS: Mapping[str, tuple[str, str]] = {
    "ask": ("asking", "ask"),
    "wait": ("asking", "wait_for"),
    "inbox": ("inbox", "inbox"),
    "list": ("questions", "list_questions"),
    "show": ("questions", "show"),
    "history": ("questions", "history"),
    "answer": ("questions", "answer"),
    "decline": ("questions", "decline"),
    "withdraw": ("questions", "withdraw"),
    "watch": ("questions", "watch"),
    "sign-in": ("sessions", "sign_in"),
    "sign-out": ("sessions", "sign_out"),
    "demo": ("demo", "demo"),
    "serve": ("serving", "serve"),
    "mcp": ("mcp", "mcp"),
    "grants": ("grants", "app"),
    "keys": ("keys", "app"),
    "people": ("people", "app"),
    "groups": ("people", "groups"),
    "shards": ("shards", "app"),
    "audit": ("audit", "app"),
    "retention": ("keeping", "retention"),
    "hold": ("keeping", "holds"),
    "erase": ("keeping", "erase"),
    "migrate": ("stores", "migrate"),
    "doctor": ("stores", "doctor"),
}
"""By the name of a command or a group of them, its module and what it is called there."""


def app_with(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command `handraise` with these of its commands."""
    app = typer.Typer(
        name="handraise",
        help="Agents ask, people answer. The store is at HANDRAISE_URL, else one SQLite file in your data folder.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    for name in names:
        module, called = COMMANDS[name]
        found = getattr(import_module(f"handraise.cli.{module}"), called)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def app_for(line: Sequence[str]) -> typer.Typer:
    """The command with what a command line names, or with all where it names none of them."""
    return app_with([name for name in line[:1] if name in COMMANDS] or COMMANDS)


def run(app: typer.Typer) -> None:
    """Do what the command line says. What goes wrong as expected is one sentence, without a traceback."""
    try:
        app(prog_name="handraise")
    except EXPECTED as error:
        text, code = ending(error)
        typer.echo("\n".join(shown_lines(text)), err=True)
        sys.exit(code)


def _version(wanted: bool) -> None:  # noqa: FBT001 -- how typer calls it
    if wanted:
        typer.echo(f"handraise {__version__}")
        raise typer.Exit


def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass
