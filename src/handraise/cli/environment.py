"""What commands work on: the settings of the environment, and the store that they name."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from handraise.cli.exit_codes import CannotDo
from handraise.model.people import OPERATOR
from handraise.server import ServerContext, ServerSettings
from handraise.server.context import open_context

T = TypeVar("T")


def settings_with(**given: Any) -> ServerSettings:
    """The settings of the environment, with what the command line gave in their place."""
    settings = ServerSettings(**{name: value for name, value in given.items() if value is not None})
    if settings.url.startswith(("http://", "https://")):
        raise CannotDo(
            "HANDRAISE_URL is the address of a server, and this command works on a store. "
            "Set it to sqlite:///file.db or postgresql://…, or unset it."
        )
    return settings


def operator() -> str:
    """Who works on this command line, for the record."""
    try:
        return f"{OPERATOR} ({getpass.getuser()})"
    except (OSError, KeyError):
        return OPERATOR


def with_context(work: Callable[[ServerContext], Awaitable[T]], **given: Any) -> T:
    """What `work` gives, done on the store of the settings."""
    settings = settings_with(**given)
    if settings.url == "memory:":
        raise CannotDo("HANDRAISE_URL is memory:, which keeps nothing after this command. Name a file.")

    async def inside() -> T:
        async with open_context(settings) as ctx:
            return await work(ctx)

    return asyncio.run(inside())
