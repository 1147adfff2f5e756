"""Run a server in this process, with a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType

import uvicorn

from handraise.model.identities import Role
from handraise.model.people import OPERATOR
from handraise.ports import Durability
from handraise.server.app import create_app
from handraise.server.auth.first_sign_in import administrators, awaits_setup
from handraise.server.auth.issuer import issue_link
from handraise.server.context import ServerContext, open_server
from handraise.server.file_descriptors import raise_open_file_limit
from handraise.server.mail_addresses import sync_all_email_addresses
from handraise.server.middleware.connection_limits import Connection, ConnectionLimits
from handraise.server.observability.otel_export import open_telemetry
from handraise.server.settings import ServerSettings
from handraise.wire.records import LinkRecord

_log = logging.getLogger(__name__)

_BACKLOG = 2_048
_KEEP_ALIVE = 75  # longer than proxies, so that they close idle connections first
_LINGER = 1.0
_POLL_INTERVAL = 0.02
_CLOSED = -1
_TURNS = 1_000


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that accepts connections.

    `first_admin` is the first administrator, if no administrator has signed in yet; `link` signs them in, if it may be
    shown.
    """

    settings: ServerSettings
    durability: Durability
    first_admin: str | None
    link: LinkRecord | None


async def serve(
    settings: ServerSettings, listening: Callable[[RunningServer], None], *, show_link: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT, then stop without cutting a request or losing a wait.

    Calls `listening` once connections are accepted; its settings have the real port if the port was 0.
    With `show_link`, it gets a sign-in link for the first administrator. That is a secret: use it only if the output is
    not stored. Raises `OSError` if it cannot listen, and what opening a store raises.
    """
    raise_open_file_limit()
    with bind(settings.host, settings.port, shared=settings.workers > 1) as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        async with (
            open_telemetry(settings) as (metrics, traces),
            open_server(settings, metrics=metrics, traces=traces) as ctx,
        ):
            _log_warnings(settings)
            await sync_all_email_addresses(ctx)
            first_admin = await first_administrator(ctx)
            link = await _first_link(ctx, first_admin) if first_admin and show_link else None
            running = RunningServer(settings, await ctx.store.durability(), first_admin, link)
            await _Server(ctx, lambda: listening(running)).serve([listener])
    _log.info("stopped", extra={"event": "stopped"})


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind a socket to an address, without listening yet. If it is shared, several processes may listen there."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise OSError(error.errno, _bind_error(host, port, error)) from error
    return listener


async def first_administrator(ctx: ServerContext) -> str | None:
    """The first administrator, created if there is none; None once an administrator has signed in."""
    if not await awaits_setup(ctx):
        return None
    workspace, name = ctx.settings.workspace, ctx.settings.admin
    if not await administrators(ctx, workspace):
        await ctx.directory.put_person(workspace, name, name=name, email=None, role=Role.ADMIN, by=OPERATOR)
    return name


async def _first_link(ctx: ServerContext, name: str) -> LinkRecord | None:
    return await issue_link(
        ctx, ctx.settings.workspace, person=name, purpose="invitation", vouched_by=OPERATOR
    )


class _Server(uvicorn.Server):
    """Uvicorn, except for how it stops."""

    def __init__(self, ctx: ServerContext, listening: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(ctx),
                ws="none",
                http=partial(Connection, ConnectionLimits(ctx.settings, ctx.metrics.count_cut_connection)),  # type: ignore[arg-type]
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(ctx.settings.trusted_proxies),
                forwarded_allow_ips=ctx.settings.trusted_proxies,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._context = ctx
        self._listening = listening
        self._skip_drain = asyncio.Event()
        self._waits_for_drain = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and call `listening`."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def main_loop(self) -> None:
        """Serve until a signal comes, and then for the time that load balancers need to notice."""
        await super().main_loop()
        _log.info("stopping", extra={"event": "stopping"})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.settings.drain_seconds):
                await self._skip_drain.wait()
        self._waits_for_drain = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, end streams and long polls, let every request finish, then stop.

        In this order: clients whose streams end reconnect at once, and must not reach this process again.
        """
        listeners = [(listener, listener.dup()) for listener in sockets or ()]
        for server in self.servers:
            server.close()
        for listener, same in listeners:
            await _close(listener)
            await self._accept_queued(same)
        self._context.stopping.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.settings.stop_seconds):
                await self._wait_for_connections()
        await self._cancel_requests()
        await self.lifespan.shutdown()

    async def _accept_queued(self, listener: socket.socket) -> None:
        """Accept the connections that are queued at a listener, and close it with nothing in between."""
        accepted: list[socket.socket] = []
        with listener, contextlib.suppress(BlockingIOError):
            listener.setblocking(False)
            while True:
                accepted.append(listener.accept()[0])
        for connection in accepted:
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, connection)

    def _connection(self) -> asyncio.Protocol:
        """Make a connection as uvicorn does."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and do not raise it again afterwards: the server must still be closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def on_signal(number: int, _: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop, number)

        before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int) -> None:
        """Start to stop. A second signal ends the draining; the next one cancels the active requests."""
        if number == signal.SIGINT or self._context.is_draining:  # from a keyboard: there is no load balancer
            self._skip_drain.set()
        self.force_exit = self._context.is_draining and not self._waits_for_drain
        self._context.is_draining = True
        self.should_exit = True

    async def _wait_for_connections(self) -> None:
        """Wait until all connections are closed; idle ones are closed after a while.

        By now every response closes its connection, so the others are idle.
        """
        clock = asyncio.get_running_loop().time
        idle_from = clock() + _LINGER
        while (self.server_state.connections or self._tasks) and not self.force_exit:
            if clock() >= idle_from:
                for connection in list(self.server_state.connections):
                    if _is_idle(connection.transport):
                        connection.shutdown()
            await asyncio.sleep(_POLL_INTERVAL)

    async def _cancel_requests(self) -> None:
        """Cancel the requests that did not end in time."""
        if tasks := set(self._tasks):
            _log.error(
                "requests were cut because they took too long",
                extra={"event": "requests_cut", "requests": len(tasks)},
            )
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_LINGER)

    @property
    def _tasks(self) -> set[asyncio.Task[None]]:
        return self.server_state.tasks


async def _close(listener: socket.socket) -> None:
    """Close a listener; with uvloop that takes some turns of the loop."""
    listener.close()
    for _ in range(_TURNS):
        if listener.fileno() == _CLOSED:
            return
        await asyncio.sleep(0)


def _is_idle(transport: asyncio.BaseTransport) -> bool:
    """Whether no data is unread: closing would lose it."""
    if not hasattr(select, "poll") or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not poll.poll(0)


def _log_warnings(settings: ServerSettings) -> None:
    if settings.is_exposed:
        _log.warning(
            "people reach this server over plain http at %s: keys and sessions can be read in transit. "
            "Put TLS in front of it and set HANDRAISE_PUBLIC_URL=https://…",
            settings.base_url,
            extra={"event": "plain_http"},
        )
    if settings.url == "memory:":
        _log.warning(
            "memory: stores nothing: every question is gone when this process ends",
            extra={"event": "memory_store"},
        )


def _bind_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Something already listens at {host}:{port}. Stop it, or choose another port: "
            "handraise serve --port 0 finds a free one."
        )
    if error.errno == errno.EACCES:
        return f"Listening at {host}:{port} is not allowed here; choose a port above 1023."
    return f"Cannot listen at {host}:{port}: {error.strerror or error}. Choose another --host."
