"""Running a server in this process, from the first connection to a stop that cuts nothing short."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType

import uvicorn

from handraise.model.identities import Person, Role
from handraise.model.people import OPERATOR
from handraise.ports import Durability
from handraise.server.app import create_app
from handraise.server.auth.issuer import issue_link
from handraise.server.context import ServerContext, open_server
from handraise.server.file_descriptors import raise_open_files
from handraise.server.mail_addresses import follow_everybody
from handraise.server.middleware.connection_limits import Connection, ConnectionLimits
from handraise.server.observability.otel_export import open_exporting
from handraise.server.settings import ServerSettings
from handraise.server.unknown_settings import unknown_settings
from handraise.wire.records import LinkRecord

_log = logging.getLogger(__name__)

_BACKLOG = 2_048
_KEEP_ALIVE = 75  # longer than the proxies in front, so that they end idle connections, not we
_LINGER = 1.0
_LOOK_AGAIN = 0.02
_CLOSED = -1
_TURNS = 1_000


@dataclass(frozen=True, slots=True)
class Listening:
    """A server that takes connections now.

    `newcomer` is the first administrator, if no administrator has signed in yet; `link` lets them in, if it may be shown.
    """

    settings: ServerSettings
    durability: Durability
    newcomer: str | None
    link: LinkRecord | None


async def serve(
    settings: ServerSettings, listening: Callable[[Listening], None], *, show_link: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT, then stop: no request is cut, no wait is lost.

    Calls `listening` once connections are taken; its settings have the port that was found where 0 was
    wanted. With `show_link`, it gets a link for the first administrator: that is a secret, so only if what it prints
    is kept by nobody. Raises `OSError` where it cannot listen, and what opening a store raises.
    """
    raise_open_files()
    with bind(settings.host, settings.port) as door:
        settings = settings.model_copy(update={"port": door.getsockname()[1]})
        async with (
            open_exporting(settings) as (metrics, traces),
            open_server(settings, metrics=metrics, traces=traces) as ctx,
        ):
            _warn(settings)
            await follow_everybody(ctx)
            newcomer = await first_administrator(ctx)
            link = await _first_link(ctx, newcomer) if newcomer and show_link else None
            told = Listening(settings, await ctx.store.durability(), newcomer, link)
            await _Server(ctx, lambda: listening(told)).serve([door])
    _log.info("stopped")


def bind(host: str, port: int) -> socket.socket:
    """A socket of one's own at an address; nobody can connect to it yet."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        door = socket.socket(family, kind, protocol)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
        except OSError:
            door.close()
            raise
    except OSError as error:
        raise OSError(error.errno, _why_not(host, port, error)) from error
    return door


async def first_administrator(ctx: ServerContext) -> str | None:
    """The first administrator, who is made where there is none; None once an administrator came in."""
    workspace, name = ctx.settings.workspace, ctx.settings.admin
    administrators = [person async for person in _everybody(ctx, workspace) if person.role is Role.ADMIN]
    if any(person.signed_in_at for person in administrators):
        return None
    if not administrators:
        await ctx.directory.put_person(workspace, name, name=name, email=None, role=Role.ADMIN, by=OPERATOR)
    elif name not in {person.id for person in administrators}:
        return None  # whoever added them gives them a link
    return name


async def _first_link(ctx: ServerContext, name: str) -> LinkRecord | None:
    return await issue_link(
        ctx, ctx.settings.workspace, person=name, purpose="invitation", vouched_by=OPERATOR
    )


async def _everybody(ctx: ServerContext, workspace: str) -> AsyncIterator[Person]:
    after = None
    while page := await ctx.directory.people(workspace, after=after, limit=500):
        for person in page:
            yield person
        after = page[-1].id


class _Server(uvicorn.Server):
    """Uvicorn, except for how it stops."""

    def __init__(self, ctx: ServerContext, listening: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(ctx),
                ws="none",
                http=partial(Connection, ConnectionLimits(ctx.settings, ctx.metrics.connection_cut)),  # type: ignore[arg-type]
                log_config=None,
                access_log=False,
                server_header=False,
                forwarded_allow_ips=ctx.settings.trusted_proxies,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._context = ctx
        self._listening = listening
        self._hurry = asyncio.Event()
        self._is_draining = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections, and say so."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def main_loop(self) -> None:
        """Serve until a signal comes, and on for as long as load balancers need to notice."""
        await super().main_loop()
        _log.info("stopping")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.settings.drain_seconds):
                await self._hurry.wait()
        self._is_draining = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, send away whoever waits, let every request finish, and only then go.

        In this order: who is sent away comes back at once, and must not come back to this process.
        """
        doors = [(door, door.dup()) for door in sockets or ()]
        for server in self.servers:
            server.close()
        for door, same in doors:
            await _close(door)
            await self._let_in_the_last(same)
        self._context.stopping.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.settings.stop_seconds):
                await self._finish()
        await self._cut()
        await self.lifespan.shutdown()

    async def _let_in_the_last(self, door: socket.socket) -> None:
        """Take whoever stands at a door that nobody looks after any more, and close it with nothing in between."""
        came: list[socket.socket] = []
        with door, contextlib.suppress(BlockingIOError):
            door.setblocking(False)
            while True:
                came.append(door.accept()[0])
        for line in came:
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, line)

    def _connection(self) -> asyncio.Protocol:
        """A new connection, as uvicorn makes it."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and do not raise it again afterwards: the server has still to be closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def hear(number: int, _: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop, number)

        before = {each: signal.signal(each, hear) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int) -> None:
        """Begin to stop. Another signal hurries: it ends the draining, then it cuts what is under way."""
        if number == signal.SIGINT or self._context.leaving:  # somebody at a keyboard, and no load balancer
            self._hurry.set()
        self.force_exit = self._context.leaving and not self._is_draining
        self._context.leaving = True
        self.should_exit = True

    async def _finish(self) -> None:
        """Wait until nobody is connected; who has asked for nothing in a while is sent away.

        Every response says by now that it is the last one over its connection, so the others are idle.
        """
        clock = asyncio.get_running_loop().time
        idle_from = clock() + _LINGER
        while (self.server_state.connections or self._tasks) and not self.force_exit:
            if clock() >= idle_from:
                for connection in list(self.server_state.connections):
                    if _is_quiet(connection.transport):
                        connection.shutdown()
            await asyncio.sleep(_LOOK_AGAIN)

    async def _cut(self) -> None:
        """End what would not end by itself in the time it was given."""
        if tasks := set(self._tasks):
            _log.error("requests were cut because they took too long", extra={"requests": len(tasks)})
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_LINGER)

    @property
    def _tasks(self) -> set[asyncio.Task[None]]:
        return self.server_state.tasks


async def _close(door: socket.socket) -> None:
    """Close a door; with uvloop that takes some turns."""
    door.close()
    for _ in range(_TURNS):
        if door.fileno() == _CLOSED:
            return
        await asyncio.sleep(0)


def _is_quiet(transport: asyncio.BaseTransport) -> bool:
    """Whether nothing has arrived that is still to be read: closing would throw it away."""
    if not hasattr(select, "poll") or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not poll.poll(0)


def _warn(settings: ServerSettings) -> None:
    for sentence in unknown_settings(os.environ):
        _log.warning("%s", sentence)
    if settings.is_exposed:
        _log.warning(
            "people reach this server over plain http at %s: keys and sessions can be read on their way. "
            "Put TLS in front of it and set HANDRAISE_PUBLIC_URL=https://…",
            settings.base_url,
        )
    if settings.url == "memory:":
        _log.warning("memory: keeps nothing: every question is gone when this process ends")


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Something listens at {host}:{port} already. Stop it, or choose another port: "
            "handraise serve --port 0 finds a free one."
        )
    if error.errno == errno.EACCES:
        return f"Listening at {host}:{port} is not allowed here; choose a port above 1023."
    return f"Cannot listen at {host}:{port}: {error.strerror or error}. Choose another --host."
