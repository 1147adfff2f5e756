"""Every command, and how they end."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from handraise import __version__
from handraise.cli import (
    asking,
    audit,
    demo,
    grants,
    inbox,
    keeping,
    keys,
    mcp,
    people,
    questions,
    serving,
    sessions,
    shards,
    stores,
)
from handraise.cli.endings import EXPECTED, ending
from handraise.cli.wording import shown_lines

app = typer.Typer(
    name="handraise",
    help="Agents ask, people answer. The store is at HANDRAISE_URL, else one SQLite file in your data folder.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:  # noqa: FBT001 -- how typer calls it
    if wanted:
        typer.echo(f"handraise {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


app.command("ask")(asking.ask)
app.command("wait")(asking.wait_for)
app.command("inbox")(inbox.inbox)
app.command("list")(questions.list_questions)
app.command("show")(questions.show)
app.command("history")(questions.history)
app.command("answer")(questions.answer)
app.command("decline")(questions.decline)
app.command("withdraw")(questions.withdraw)
app.command("watch")(questions.watch)
app.command("sign-in")(sessions.sign_in)
app.command("sign-out")(sessions.sign_out)
app.command("demo")(demo.demo)
app.command("serve")(serving.serve)
app.command("mcp")(mcp.mcp)
app.add_typer(grants.app, name="grants")
app.add_typer(keys.app, name="keys")
app.add_typer(people.app, name="people")
app.add_typer(people.groups, name="groups")
app.add_typer(shards.app, name="shards")
app.add_typer(audit.app, name="audit")
app.add_typer(keeping.retention, name="retention")
app.add_typer(keeping.holds, name="hold")
app.command("erase")(keeping.erase)
app.command("migrate")(stores.migrate)
app.command("doctor")(stores.doctor)


def run() -> None:
    """Do what the command line says. What goes wrong as expected is one sentence, without a traceback."""
    try:
        app(prog_name="handraise")
    except EXPECTED as error:
        text, code = ending(error)
        typer.echo("\n".join(shown_lines(text)), err=True)
        sys.exit(code)
