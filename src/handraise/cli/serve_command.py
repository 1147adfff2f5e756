"""`handraise serve`."""

from __future__ import annotations

import asyncio
import gc
import logging
import shlex
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from handraise import __version__
from handraise.cli.environment import settings_with
from handraise.cli.terminal_output import show_facts, when
from handraise.desk_factory import without_secrets
from handraise.model.visible import visible_line
from handraise.server import process
from handraise.server.observability.logs import configure_logs
from handraise.server.settings import ServerSettings
from handraise.server.workers import Supervisor, check_workers

_log = logging.getLogger(__name__)


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="The port; 0 for a free one. Default: 8765."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, max=64, help="How many processes serve. Default: 1."),
    ] = None,
) -> None:
    """Run the server.

    Without any settings it works for you alone, on SQLite. With HANDRAISE_URL=postgresql://… it serves
    everybody, and any number of servers may share one database. Every setting is an environment variable; see
    the reference.

    One process uses one core. With --workers, several serve at the same port; each is as a server of its own.

    Ctrl+C or SIGTERM stops it, after running requests have finished.
    """
    settings = settings_with(refuse_unknown=True, host=host, port=port, workers=workers)
    configure_logs(settings)
    # With thousands of streams, millions of objects live long. Looking for cycles as often as Python does by
    # default took two fifths of the server's time, and a second at a time.
    gc.freeze()
    gc.set_threshold(20_000, 5, 50)
    listening = show
    if settings.workers > 1:
        settings, number = _start_workers(settings)
        listening = show if number == 0 else log_listening
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        # If this is not a terminal, the output ends up in a journal or a log store, and a link is a secret.
        # With a store in memory, no other command could make one.
        show_link = sys.stdout.isatty() or settings.url == "memory:"
        runner.run(process.serve(settings, listening, show_link=show_link and listening is show))


def _start_workers(settings: ServerSettings) -> tuple[ServerSettings, int]:
    """Return in each worker, with the real port and its number. In this process, wait until they have ended, and exit."""
    check_workers(settings)
    process.bind(
        settings.host, settings.port
    ).close()  # a shared port would be taken though another server has it
    with process.bind(settings.host, settings.port, shared=True) as reserved:
        settings = settings.model_copy(update={"port": reserved.getsockname()[1]})
        supervisor = Supervisor(settings.workers)
        code = supervisor.run()
    if code is not None:
        raise typer.Exit(code)
    return settings, supervisor.number


def show(listening: process.RunningServer) -> None:
    """Print where it listens, what it promises, and how the first administrator signs in."""
    settings = listening.settings
    address = _unknown_address(settings)
    facts = [
        ("Listening", settings.listening_url),
        *([("Reached at", settings.base_url)] if settings.public_url else []),
        ("Store", without_secrets(settings.url)),
        ("Survives", listening.durability.survives),
        ("Look at", "/docs for the HTTP API, /metrics for numbers, /readyz for its health"),
    ]
    typer.echo(f"\nHandraise {__version__}\n")
    show_facts(facts)
    if listening.link is not None:
        typer.echo(
            f"\nNobody has signed in yet. Sign in as {visible_line(settings.admin)}, the first administrator, "
            f"with this link.\nIt works once, until {when(listening.link.expires_at)}. Keep it to yourself:\n"
        )
        typer.secho(listening.link.url, bold=True)
        typer.echo(f"\nTo begin under a name of your own, paste the same link at {settings.base_url}/setup")
    elif listening.first_admin is not None:
        name, workspace = visible_line(listening.first_admin), visible_line(settings.workspace)
        where = "" if workspace == "default" else f" --workspace {shlex.quote(workspace)}"
        before = "" if address is None else f"{address} "
        typer.echo(
            f"\nNobody has signed in yet. To sign in as {name}, the first administrator, run this with the same settings:\n\n"
            f"{before}handraise people link {shlex.quote(name)}{where}\n\n"
            f"To begin under a name of your own, paste that link at {settings.base_url}/setup"
        )
    if address is not None:
        typer.echo(f"\nOther commands do not know this address. To have it in their links, set {address}")
    if sys.stdout.isatty():
        typer.echo("\nStop with Ctrl+C.\n")
    log_listening(listening)


def _unknown_address(settings: ServerSettings) -> str | None:
    """The setting that other commands lack to make links to this server; None if they find its address themselves."""
    if settings.url == "memory:" or settings.base_url == settings_with().base_url:
        return None
    return f"HANDRAISE_PUBLIC_URL={shlex.quote(settings.base_url)}"


def log_listening(listening: process.RunningServer) -> None:
    """Log where it listens, unless somebody has read that in the terminal."""
    settings = listening.settings
    if not sys.stderr.isatty():
        _log.info(
            "listening", extra={"event": "listening", "url": settings.listening_url, "port": settings.port}
        )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fast event loop, if it is installed."""
    try:
        import uvloop  # noqa: PLC0415 -- an extra
    except ImportError:
        return None
    return uvloop.new_event_loop
