"""One address chooses the backend; the code around it does not change."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypedDict, Unpack
from urllib.parse import urlsplit

from handraise.backends.sql.workspace_transfer import WorkspaceTables
from handraise.desk.attachment_store import AttachmentStore
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk.policy_cache import PolicyCache
from handraise.desk.recipient_check import Recipients
from handraise.model.drafting import Limits
from handraise.model.durations import Span
from handraise.model.errors import UnknownAddress
from handraise.model.receipts import ReceiptSigner
from handraise.model.visible import visible_line
from handraise.ports import Backend, Blobs, Bus, Clock, Directory, Files, IdFactory, Policies, Store
from handraise.ports.desk import Desk
from handraise.ports.store import StatementSpan
from handraise.wire.credentials import Credentials


class DeskOptions(TypedDict, total=False):
    """Options of a desk, wherever its store is; `open_desk` and `desk_from_store` take them as keywords.

    `workspace` and `asker` default to "default" and "agent", or for a desk at a server to those of its key.
    `poll_interval` is how long a lost wake-up may go unnoticed.
    """

    workspace: str
    asker: str
    new_id: IdFactory
    limits: Limits
    poll_interval: Span


def open_desk(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    bus: Bus | str | None = None,
    connections: int = 4,
    credentials: str | Credentials | None = None,
    keep_settled: timedelta | None = None,
    pending_quota: int | None = None,
    receipt_key: str | os.PathLike[str] | None = None,
    **options: Unpack[DeskOptions],
) -> DeskContext:
    """Open the desk at an address.

    Write `async with open_desk(…) as desk:`, or `desk = await open_desk(…)` and later `await desk.close()`.

    The address is `url`, else `HANDRAISE_URL`, else in a terminal one SQLite file in the user's data folder: `memory:`,
    `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user@host/database`, or the `http(s)://…` of a
    server. `connections` is the most connections that this desk opens to PostgreSQL, its listener included. `bus` replaces the default bus: a bus of your own, or an address such as
    `nats://host:4222`; for a store, `HANDRAISE_BUS` is such an address too. `credentials` are for a server:
    the key of an agent or the session of a person, else `HANDRAISE_KEY`. `keep_settled` is how long settled
    questions of all workspaces of the store are kept; without it, forever. `pending_quota` is how many
    pending questions one asker may have in a workspace; without it, any number. One more raises
    `QuotaExceeded`. `receipt_key` is the file of the key that signs receipts, else `HANDRAISE_RECEIPT_KEY`. A
    server has settings for these three. With `HANDRAISE_PUBLIC_URL`, the address of a server on
    the same store, questions have a `url`.
    """
    opened = _open_desk(
        url,
        clock=clock,
        bus=bus,
        connections=connections,
        credentials=credentials,
        keep_settled=keep_settled,
        pending_quota=pending_quota,
        receipt_key=receipt_key,
        **options,
    )
    return DeskContext(opened)


_holders: set[asyncio.Task[None]] = set()
"""The tasks of desks that were opened with `await`: an event loop alone would let them be garbage collected."""


class DeskContext(AbstractAsyncContextManager[Desk]):
    """What `open_desk` returns: a desk once it is entered or awaited.

    If it is used differently, it says what to write.
    """

    def __init__(self, opened: AbstractAsyncContextManager[Desk]) -> None:
        self._opened = opened
        self._closed = False
        self._holder: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Desk:
        desk = await self._opened.__aenter__()
        desk._close = self._close  # noqa: SLF001 -- only the code that opens a desk knows how to close it
        return desk

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._closed:
            return None
        self._closed = True
        return await self._opened.__aexit__(kind, error, trace)

    def __await__(self) -> Generator[Any, None, Desk]:
        return self._open_in_task().__await__()

    async def _open_in_task(self) -> Desk:
        """Open the desk in a task of its own: `asyncio.run` cancels that if nobody closes the desk, which closes it in order."""
        opened = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._holder = asyncio.create_task(self._hold(opened, self._closing))
        _holders.add(self._holder)
        self._holder.add_done_callback(_holders.discard)
        try:
            desk: Desk = await opened
        except asyncio.CancelledError:
            self._holder.cancel()
            raise
        return desk

    async def _hold(self, opened: asyncio.Future[Desk], closing: asyncio.Event) -> None:
        try:
            async with self as desk:
                opened.set_result(desk)
                await closing.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def _close(self) -> None:
        if self._holder is None:
            await self.__aexit__(None, None, None)
        elif not self._holder.done():
            self._closing.set()
            await self._holder

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "Write `async with handraise.open_desk(…) as desk:` inside a coroutine. In a program without one, write "
            "`import handraise.blocking` and `with handraise.blocking.open_desk(…) as desk:`."
        )

    def __exit__(self, *why: object) -> None:
        """Never reached."""

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(Desk, name) and not name.startswith("_"):
            raise AttributeError(
                f"The desk is not open yet: write `async with open_desk(…) as desk:` or `desk = await open_desk(…)`, "
                f"then `desk.{name}`."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@asynccontextmanager
async def _open_desk(
    url: str | None,
    *,
    clock: Clock | None,
    bus: Bus | str | None,
    connections: int,
    credentials: str | Credentials | None,
    keep_settled: timedelta | None,
    pending_quota: int | None,
    receipt_key: str | os.PathLike[str] | None,
    **options: Unpack[DeskOptions],
) -> AsyncIterator[Desk]:
    address = url or address_from(os.environ, has_key=credentials is not None, must_be_set=not at_terminal())
    if not isinstance(address, str):
        path = isinstance(address, os.PathLike)
        raise UnknownAddress(
            str(address),
            use=f"Write open_desk('sqlite:///{address}') for this file." if path else "It must be a text.",
        )
    if address.startswith(("http://", "https://")):
        if clock is not None:
            raise ValueError("A desk at a server has no clock of its own: the server's store has.")
        if keep_settled is not None:
            raise ValueError(
                "A desk at a server keeps nothing: set HANDRAISE_KEEP_SETTLED_DAYS at the server."
            )
        if pending_quota is not None:
            raise ValueError("A desk at a server has its quota: set HANDRAISE_PENDING_QUOTA at the server.")
        if receipt_key is not None:
            raise ValueError("A server signs its receipts itself: set HANDRAISE_RECEIPT_KEY at the server.")
        from handraise.client import open_remote  # noqa: PLC0415 -- httpx2 is an extra

        known = credentials or os.environ.get("HANDRAISE_KEY")
        options.setdefault("new_id", uuid7_ids())
        async with AsyncExitStack() as opened:
            heard = await opened.enter_async_context(open_bus(bus)) if isinstance(bus, str) else bus
            remote = await opened.enter_async_context(
                open_remote(address, credentials=known, bus=heard, **options)
            )
            remote._address = without_secrets(address)  # noqa: SLF001 -- only the code that opens a desk knows it
            yield remote
        return
    async with (
        open_backend(address, clock=clock, bus=bus, connections=connections) as backend,
        desk_from_store(
            backend.store,
            backend.bus,
            directory=backend.directory,
            policies=backend.policies,
            files=backend.files,
            blobs=backend.blobs,
            clock=clock,
            keep_settled=keep_settled,
            pending_quota=pending_quota,
            receipt_key=receipt_key or os.environ.get("HANDRAISE_RECEIPT_KEY"),
            **options,
        ) as desk,
    ):
        desk._address = None if address == "memory:" else without_secrets(address)  # noqa: SLF001 -- see above
        yield desk


@asynccontextmanager
async def desk_from_store(
    store: Store,
    bus: Bus,
    *,
    directory: Directory | None = None,
    policies: Policies | None = None,
    files: Files | None = None,
    blobs: Blobs | None = None,
    clock: Clock | None = None,
    keep_settled: timedelta | None = None,
    pending_quota: int | None = None,
    receipt_key: str | os.PathLike[str] | None = None,
    **options: Unpack[DeskOptions],
) -> AsyncIterator[LocalDesk]:
    """A desk on a store and a bus of your own, which stay open when it closes.

    With a `directory`, a person who is named by a text has their groups from there, and a question to
    somebody whom it does not know is refused. `policies` are those of the store's workspaces: if one has a
    policy and they are not given, nothing can be posted there. `clock` is the store's, for rules about the
    time of day. Without `files` of the store and `blobs` for their bytes, nothing can be attached.
    """
    if pending_quota is not None and pending_quota < 1:
        raise ValueError(f"pending_quota is at least 1, or None for any number, not {pending_quota}")
    engine = Engine(
        store,
        bus,
        poll_interval=options.get("poll_interval", 1.0),
        public_url=os.environ.get("HANDRAISE_PUBLIC_URL"),
        keep=keep_settled,
        quota=pending_quota,
        directory=directory,
        recipients=None if directory is None else Recipients(directory),
        policies=PolicyCache(policies, clock),
        receipt_signer=None if receipt_key is None else await asyncio.to_thread(_signer, receipt_key),
        attachments=AttachmentStore(files, blobs),
    )
    try:
        yield LocalDesk(
            engine,
            workspace=options.get("workspace", "default"),
            asker=options.get("asker", "agent"),
            new_id=options.get("new_id") or uuid7_ids(),
            limits=options.get("limits") or Limits(),
        )
    finally:
        await engine.close()


def _signer(path: str | os.PathLike[str]) -> ReceiptSigner:
    from handraise.signing.receipt_tokens import load_receipt_key  # noqa: PLC0415 -- joserfc is an extra

    return load_receipt_key(path)


SIMILARITY = 0.66
"""How alike a misspelt variable is to the right one: two letters of three, as in ULR."""
VARIABLES = ("URL", "KEY", "BUS", "LISTEN_URL", "FILES", "RECEIPT_KEY", "PUBLIC_URL")
"""What a desk reads from the environment, after `HANDRAISE_`."""


def address_from(environment: Mapping[str, str], *, has_key: bool = False, must_be_set: bool = False) -> str:
    """`HANDRAISE_URL`, else the default file; `UnknownAddress` if that file is probably not what was meant."""
    if misspelt := misspelt_variables(environment):
        raise UnknownAddress("", use=" ".join(misspelt))
    if address := environment.get("HANDRAISE_URL"):
        return address
    if has_key or environment.get("HANDRAISE_KEY"):
        raise UnknownAddress(
            "",
            use="There is a key (HANDRAISE_KEY, or credentials=…), but no address of the server that knows it. "
            "Set HANDRAISE_URL=https://…, or unset the key to use a store without a server.",
        )
    if must_be_set:
        raise UnknownAddress(
            "",
            use="This program does not run in a terminal and names no store, so nobody would find its questions. "
            f"Set HANDRAISE_URL. The file that handraise inbox shows without it is {default_address()}",
        )
    return default_address()


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is probably a misspelt one of a desk."""
    wanted = [name for name in VARIABLES if f"HANDRAISE_{name}" not in environment]
    given = sorted(name.removeprefix("HANDRAISE_") for name in environment if name.startswith("HANDRAISE_"))
    return [
        f"HANDRAISE_{name} is no setting of this release. Did you mean HANDRAISE_{meant}?"
        for name in given
        if name not in VARIABLES
        for meant in get_close_matches(name, wanted, n=1, cutoff=SIMILARITY)
        if not name.startswith(f"{meant}_")  # a setting of the server, whose name is longer
    ]


def at_terminal() -> bool:
    """Whether somebody at a terminal started this program."""
    return any(
        stream is not None and not stream.closed and stream.isatty()
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


def default_address() -> str:
    """The address of the SQLite file in the user's data folder."""
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return f"sqlite:///{folder / 'handraise' / 'handraise.db'}"


def without_secrets(address: str) -> str:
    """An address that is safe to show: without the password, and without options, which may hold one."""
    if address.startswith("sqlite:") or "://" not in address:
        return visible_line(address)
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    return visible_line(f"{parts.scheme}://{user}{host}{parts.path}")


@asynccontextmanager
async def open_backend(
    address: str,
    *,
    clock: Clock | None = None,
    bus: Bus | str | None = None,
    connections: int = 4,
    listen: str | None = None,
    confined: bool | None = None,
    anywhere: bool = False,
    files: str | None = None,
    statement_span: StatementSpan | None = None,
) -> AsyncIterator[Backend]:
    """Open the store, bus and directory at an address that is not a server's.

    `bus` replaces the default bus: a bus, or its address; if others can share the store, `HANDRAISE_BUS` is
    such an address too. For PostgreSQL, `listen`, else `HANDRAISE_LISTEN_URL`, is its address without a
    pooler in between. `confined` says whether the database itself must keep workspaces apart; with None that
    depends on the role that is used to log in. `anywhere` says whether a schema may be created in
    PostgreSQL's own default database. `files`, else `HANDRAISE_FILES`, is where the bytes of files are: a folder, or
    the address of object storage such as `s3://bucket/prefix`; without it, in the database. `statement_span` traces
    the statements of PostgreSQL.
    """
    if bus is None and address != "memory:":
        bus = os.environ.get("HANDRAISE_BUS") or None
    if bus is not None:
        connections += 1  # nothing listens at PostgreSQL then, so it needs no connection for that
    async with AsyncExitStack() as opened:
        backend = await opened.enter_async_context(
            _backend_at(
                address,
                clock=clock,
                connections=connections,
                listen=listen,
                confined=confined,
                anywhere=anywhere,
                statement_span=statement_span,
            )
        )
        if isinstance(bus, str):
            bus = await opened.enter_async_context(open_bus(bus))
        if place := files or os.environ.get("HANDRAISE_FILES"):
            backend = backend._replace(blobs=open_blobs(place))
        yield backend if bus is None else backend._replace(bus=bus)


def open_blobs(place: str) -> Blobs:
    """The bytes of files at a place: `s3://…`, `gs://…`, `az://…`, or a folder."""
    scheme, has_scheme, path = place.partition("://")
    if not has_scheme or scheme == "file":
        from handraise.backends.blobs.folder import FolderBlobs  # noqa: PLC0415 -- only what is needed

        return FolderBlobs(Path(path if has_scheme else place).expanduser().resolve())
    from handraise.backends.blobs.objects import SCHEMES, ObjectBlobs  # noqa: PLC0415 -- obstore is an extra

    if scheme not in SCHEMES:
        raise UnknownAddress(place, use="Files are kept in a folder, or at s3://…, gs://… or az://….")
    return ObjectBlobs(place)


def open_bus(address: str) -> AbstractAsyncContextManager[Bus]:
    """The bus at an address."""
    from handraise.backends.nats import open_nats  # noqa: PLC0415 -- nats-py is an extra

    return open_nats(address)


def _backend_at(
    address: str,
    *,
    clock: Clock | None,
    connections: int,
    listen: str | None,
    confined: bool | None,
    anywhere: bool,
    statement_span: StatementSpan | None,
) -> AbstractAsyncContextManager[Backend]:
    # Import only what the address needs: drivers are extras.
    scheme, _, rest = address.partition(":")
    if scheme == "memory" and not rest:
        from handraise.backends.sqlite.memory import open_memory  # noqa: PLC0415 -- only what is needed

        return open_memory(clock=clock)
    if scheme == "sqlite" and rest.startswith("///") and rest != "///":
        from handraise.backends.sqlite import open_sqlite  # noqa: PLC0415 -- only what is needed

        # Only the user's data folder is created; if any other folder is missing, the address is probably wrong.
        return open_sqlite(_sqlite_file(address), clock=clock, make_folder=address == default_address())
    if scheme in ("postgresql", "postgres"):
        from handraise.backends.postgres import open_postgres  # noqa: PLC0415 -- asyncpg is an extra

        listen = listen or os.environ.get("HANDRAISE_LISTEN_URL")
        return open_postgres(
            address,
            clock=clock,
            connections=connections,
            listen=listen,
            confined=confined,
            anywhere=anywhere,
            statement_span=statement_span,
        )
    raise UnknownAddress(address)


@asynccontextmanager
async def open_tables(address: str, workspace: str, *, may_write: bool) -> AsyncIterator[WorkspaceTables]:
    """The tables of a store, to export or import a workspace. A file is only made if they may be written to."""
    scheme, _, rest = address.partition(":")
    if scheme == "sqlite" and rest.startswith("///") and rest != "///":
        from handraise.backends.sqlite.workspace_tables import (  # noqa: PLC0415 -- only what is needed
            open_sqlite_tables,
        )

        async with open_sqlite_tables(_sqlite_file(address), workspace, may_create=may_write) as file:
            yield file
    elif scheme in ("postgresql", "postgres"):
        from handraise.backends.postgres.workspace_tables import (  # noqa: PLC0415 -- asyncpg is an extra
            open_postgres_tables,
        )

        async with open_postgres_tables(address, workspace, may_write=may_write) as database:
            yield database
    else:
        raise UnknownAddress(address, use="A workspace is in sqlite:///file.db or postgresql://….")


def _sqlite_file(address: str) -> Path:
    """The file of an SQLite address. Options of other libraries, which would become part of its name, are refused."""
    name = address.removeprefix("sqlite:///")
    if name == ":memory:":
        raise UnknownAddress(address, use="Use 'memory:' for questions that end with the process.")
    if "?" in name:
        raise UnknownAddress(
            address, use="An SQLite address has no options: leave out everything from the '?' on."
        )
    return Path(name)
