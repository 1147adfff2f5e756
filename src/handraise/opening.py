"""One address chooses the backend; the code around it does not change."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypedDict, Unpack

from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local import LocalDesk
from handraise.model.composing import Limits, Span
from handraise.model.errors import UnknownAddress
from handraise.ports import Bus, Clock, IdFactory, Store


class DeskOptions(TypedDict, total=False):
    """How a desk works, whatever store it is on; `open_desk` and `open_desk_on` take it as keywords.

    `workspace` and `asker` are "default" and "agent" unless said otherwise. `poll_interval` is how long a
    lost wake-up may go unnoticed.
    """

    workspace: str
    asker: str
    new_id: IdFactory
    limits: Limits
    poll_interval: Span


@asynccontextmanager
async def open_desk(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    bus: Bus | None = None,
    connections: int = 4,
    **options: Unpack[DeskOptions],
) -> AsyncIterator[LocalDesk]:
    """A desk at an address, for as long as this context lasts.

    The address is `url`, else `HANDRAISE_URL`, else one SQLite file in the user's data folder: `memory:`,
    `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user@host/database`. `connections` is
    the most that PostgreSQL gets from this desk, its listener included. A `bus` of one's own replaces the
    one that fits the store.
    """
    address = url or os.environ.get("HANDRAISE_URL") or default_address()
    async with (
        _backend(address, clock, connections) as (store, fitting),
        open_desk_on(store, bus or fitting, **options) as desk,
    ):
        yield desk


@asynccontextmanager
async def open_desk_on(store: Store, bus: Bus, **options: Unpack[DeskOptions]) -> AsyncIterator[LocalDesk]:
    """A desk on a store and a bus of one's own, which stay open when it closes."""
    engine = Engine(store, bus, poll_interval=options.get("poll_interval", 1.0))
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


def _backend(
    address: str, clock: Clock | None, connections: int
) -> AbstractAsyncContextManager[tuple[Store, Bus]]:
    """Import only what the address needs: drivers are extras."""
    scheme, _, rest = address.partition(":")
    if scheme == "memory" and not rest:
        from handraise.backends.memory import open_memory  # noqa: PLC0415 -- only what is needed

        return open_memory(clock=clock)
    if scheme == "sqlite" and rest.startswith("///") and rest != "///":
        from handraise.backends.sqlite import open_sqlite  # noqa: PLC0415 -- only what is needed

        return open_sqlite(Path(rest.removeprefix("///")), clock=clock)
    if scheme in ("postgresql", "postgres"):
        from handraise.backends.postgres import open_postgres  # noqa: PLC0415 -- asyncpg is an extra

        return open_postgres(address, clock=clock, connections=connections)
    raise UnknownAddress(address)
