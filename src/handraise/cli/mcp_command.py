"""`handraise mcp`: an MCP server with tools for asking people."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.session import AsAsker, Workspace, asker_session, person_session
from handraise.cli.terminal_texts import span_of

_LONG_ENOUGH = 32


def mcp(
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="The port; 0 for a free one.")
    ] = 8766,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who uses the client. If it can show cards or forms, they may answer there; if not given, nobody may.",
        ),
    ] = None,
    recipients: Annotated[
        list[str] | None,
        typer.Option(
            "--recipient", metavar="NAME", help="Who may answer: a person or group:NAME; anyone if not given."
        ),
    ] = None,
    wait: Annotated[
        str,
        typer.Option(
            metavar="SPAN", help="How long a call waits before it returns that the question is still pending."
        ),
    ] = "50s",
    expires_in: Annotated[
        str | None, typer.Option(metavar="SPAN", help="When a question ends unanswered, such as 2h or 3d.")
    ] = None,
    risk: Annotated[
        str,
        typer.Option(
            metavar="LEVEL", help="The lowest risk of any action, whatever a model says: low, medium, high."
        ),
    ] = "medium",
    topics: Annotated[
        bool,
        typer.Option(
            "--topics",
            help="Let a model give its question a topic: equal questions of several agents are asked once.",
        ),
    ] = False,
    cards: Annotated[
        bool,
        typer.Option("--cards", help="Show cards also in a client that does not say that it can show them."),
    ] = False,
    conversation: Annotated[
        str, typer.Option(metavar="NAME", help="The conversation that the questions belong to.")
    ] = "mcp",
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Let an MCP client ask people, request approvals, and collect answers.

    The client starts this command by itself and talks to it over stdin and stdout. With --http it serves any
    number of clients at /mcp. If HANDRAISE_MCP_TOKEN is set, clients must send it as their bearer token; if
    not, only clients on this machine are served and nobody can answer there, because --person needs the
    token. HANDRAISE_MCP_STATE_KEY, 32 characters or more, is shared by servers behind one address.

    An answer given in a client is only asserted by that program, so it never approves an action of high risk.
    With a server, --person needs that person's session on this machine: handraise sign-in LINK.
    """
    if risk not in ("low", "medium", "high"):
        raise typer.BadParameter(f"{risk!r} is not a risk: low, medium or high.")
    key = os.environ.get("HANDRAISE_MCP_STATE_KEY")
    if key is not None and len(key.encode()) < _LONG_ENOUGH:
        raise CommandError(f"HANDRAISE_MCP_STATE_KEY is too short: {_LONG_ENOUGH} characters or more.")
    token = os.environ.get("HANDRAISE_MCP_TOKEN") or None
    if http and person is not None and token is None:
        raise CommandError(
            f"With --http, any program on this machine could ask and then answer as {person}. "
            "Set HANDRAISE_MCP_TOKEN to a token that the client must send, or leave out --person."
        )
    # Imported by name: its types are checked where its framework is installed.
    integration: Any = importlib.import_module("handraise.integrations.mcp")
    options = {
        "conversation": conversation,
        "recipients": tuple(recipients or ()),
        "wait": span_of(wait),
        "expires_in": None if expires_in is None else span_of(expires_in),
        "least_risk": risk,
        "topics": topics,
        "assume_cards": cards,
        "state_keys": () if key is None else (key,),
    }
    if http and token is None and not integration.is_loopback(host):
        raise CommandError(
            f"Anyone who reaches {host} could ask in this agent's name. "
            "Set HANDRAISE_MCP_TOKEN to a token that clients must send, or listen on 127.0.0.1."
        )
    if not http and sys.stdin.isatty():
        typer.echo("This speaks MCP over stdin: let a client start it. Stop with Ctrl+C.", err=True)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            asker = await stack.enter_async_context(asker_session(name=name, workspace=workspace))
            if person is not None:
                session = await stack.enter_async_context(
                    person_session(name=person, workspace=workspace, ignore_key=True)
                )
                options["person"] = integration.ClientPerson(session.desk, session.me)
            server = integration.mcp_server(asker.desk, **options)
            if http:
                await integration.serve_http(
                    server, host=host, port=port, token=token, listening=_print_address
                )
            else:
                # A thread that reads stdin cannot be interrupted; nothing is lost, because everything is in
                # the store.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                await integration.serve_stdio(server)

    asyncio.run(run())


def _print_address(address: str) -> None:
    typer.echo(f"Listening {address}")
