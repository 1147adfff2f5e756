"""The settings of the environment and their store, for commands."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pydantic

from handraise.cli.exit_codes import CommandError, ConfigurationError
from handraise.model.people import OPERATOR
from handraise.server import ServerContext, ServerSettings
from handraise.server.context import open_context
from handraise.server.setting_variables import setting_problem, unknown_settings

T = TypeVar("T")


def settings_with(*, refuse_unknown: bool = False, **overrides: Any) -> ServerSettings:
    """The settings of the environment; options of the command line override them.

    With `refuse_unknown`, a variable that looks like a setting and is none is a problem too. All problems are reported at once.
    """
    problems = unknown_variables() if refuse_unknown else []
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = ServerSettings(**given)
    except pydantic.ValidationError as error:
        raise ConfigurationError("\n".join([*map(setting_problem, error.errors()), *problems])) from None
    if problems:
        raise ConfigurationError("\n".join(problems))
    if settings.url.startswith(("http://", "https://")):
        raise CommandError(
            "HANDRAISE_URL is the address of a server, but this command works on a store. "
            "Set it to sqlite:///file.db or postgresql://…, or unset it."
        )
    return settings


def unknown_variables() -> list[str]:
    """A sentence for each variable of the environment that looks like a setting and is none."""
    return unknown_settings(os.environ, ServerSettings.model_fields)


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
