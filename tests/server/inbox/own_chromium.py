"""A browser for a module that is not here. It ends with the module, so that nothing else runs beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.server.inbox.chromium import launched

__all__ = ["chromium"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser
