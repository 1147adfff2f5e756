"""The settings of the environment and their store, for commands."""

from __future__ import annotations

import asyncio
import getpass
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic_settings import SettingsError

from handraise.cli.exit_codes import CommandError, ConfigurationError
from handraise.model.people import OPERATOR
from handraise.server import ServerContext, ServerSettings
from handraise.server.context import open_context

T = TypeVar("T")


def settings_with(**overrides: Any) -> ServerSettings:
    """The settings of the environment; options of the command line override them."""
    try:
        settings = ServerSettings(**{name: value for name, value in overrides.items() if value is not None})
    except SettingsError as error:
        name = re.search(r'field "(\w+)"', str(error))
        variable = f"HANDRAISE_{name[1].upper() if name else '…'}"
        raise ConfigurationError(f"{variable} cannot be used: it is not JSON.") from None
    if settings.url.startswith(("http://", "https://")):
        raise CommandError(
            "HANDRAISE_URL is the address of a server, but this command works on a store. "
            "Set it to sqlite:///file.db or postgresql://…, or unset it."
        )
    return settings


def operator() -> str:
    """The user at this command line, for the record."""
    try:
        return f"{OPERATOR} ({getpass.getuser()})"
    except (OSError, KeyError):
        return OPERATOR


def with_context(work: Callable[[ServerContext], Awaitable[T]], **overrides: Any) -> T:
    """Run `work` on the store of the settings, and return its result."""
    settings = settings_with(**overrides)
    if settings.url == "memory:":
        raise CommandError("HANDRAISE_URL is memory:, which keeps nothing after this command. Name a file.")

    async def run() -> T:
        async with open_context(settings) as ctx:
            return await work(ctx)

    return asyncio.run(run())
