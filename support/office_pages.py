"""Every page of the server, with the office of the demo behind it: for pictures, and for tests of all pages."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, BrowserContext

from handraise.cli.demo_office import SUPPORT, Waiting, fill_office
from handraise.server import ServerSettings, create_app
from handraise.server.auth.issuer import issue_session
from handraise.server.context import ServerContext, open_context
from handraise.server.web.pages import PageRoute
from support.http_server import listening

PERSON = "you"
WIDTHS = (390, 820, 1440)
THEMES = ("light", "dark")
NOT_A_PAGE = {
    "/openapi.json": "a document for programs",
    "/insights.csv": "a file",
    "/questions/{question_id}/files/{digest}": "a file",
    "/questions/{question_id}/images/{digest}": "an image",
    "/q/{token}": "a page behind a link: tests/server/inbox/test_browser_embedded.py",
    "/q/{token}/frame": "a page behind a link: tests/server/inbox/test_browser_embedded.py",
    "/q/{token}/status": "a document for programs",
    "/sign-in/link": "a page behind a link: tests/server/inbox/test_browser_access.py",
    "/me/connect/{token}": "a page behind a link: tests/server/inbox/test_browser_connect.py",
    "/admin/addresses/find": "a page of a server with Slack: tests/server/inbox/test_browser_connect.py",
    "/setup": "a page of a server without administrators: tests/server/inbox/test_browser_admin.py",
}
"""Routes that are not looked at, and why."""


@dataclass(frozen=True, slots=True)
class Office:
    """A server with the office of the demo."""

    ctx: ServerContext
    address: str
    waiting: Waiting
    done: str
    """The id of an action that was approved and executed."""

    def pages(self) -> dict[str, tuple[str, str]]:
        """The route and an address of every page, by a name for its picture."""
        plain = {
            "inbox": "/",
            "together": "/together",
            "snoozed": "/aside",
            "settled": "/settled",
            "insights": "/insights",
            "stops": "/stops",
            "policy": "/policy",
            "standing-answers": "/standing-answers",
            "account": "/me",
            "sign-in": "/sign-in",
            "http-api": "/docs",
            "admin": "/admin",
            "admin-people": "/admin/people",
            "admin-groups": "/admin/groups",
            "admin-keys": "/admin/keys",
            "admin-channels": "/admin/channels",
            "admin-addresses": "/admin/addresses",
            "admin-routing": "/admin/routing",
            "admin-grants": "/admin/grants",
            "admin-limits": "/admin/limits",
            "admin-deliveries": "/admin/deliveries",
            "admin-audit": "/admin/audit",
            "admin-retention": "/admin/retention",
        }
        found = {name: (path, path) for name, path in plain.items()}
        question = "/questions/{question_id}"
        found |= {
            "approval-high-risk": (question, f"/questions/{self.waiting.invoice.id}"),
            "approval-of-a-statement": (question, f"/questions/{self.waiting.change.id}"),
            "executed": (question, f"/questions/{self.done}"),
            "found": ("/search", "/search?q=refund"),
            "nothing-found": ("/search", "/search?q=unicorn"),
            "agent": ("/agent", f"/agent?name={SUPPORT}"),
            "tool": ("/tool", "/tool?name=refund"),
            "person": ("/person", "/person"),
            "conversation": ("/conversation", f"/conversation?name={quote('November closing')}"),
            "admin-group": ("/admin/groups/{name}", "/admin/groups/finance"),
            "admin-person": ("/admin/people/{person_id}", "/admin/people/mara"),
            "not-found": ("", "/no/such/page"),
        }
        return found

    async def window(self, browser: Browser, **options: Any) -> BrowserContext:
        """A new window in which the person is signed in."""
        session = await issue_session(self.ctx, self.ctx.settings.workspace, person=PERSON, how="sign-in")
        if session is None:
            raise LookupError(PERSON)
        window = await browser.new_context(base_url=self.address, **options)
        await window.add_cookies([{"name": "handraise", "value": session.token, "url": self.address}])
        return window

    def routes(self) -> set[str]:
        """All routes of pages that somebody can open."""
        return set(_routes(create_app(self.ctx).routes)) - set(NOT_A_PAGE)


def _routes(routes: Iterable[Any]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, PageRoute):
            if "GET" in (route.methods or ()):
                yield route.path
        elif (inner := getattr(route, "original_router", None)) is not None:
            yield from _routes(inner.routes)


@asynccontextmanager
async def open_office() -> AsyncIterator[Office]:
    """Fill an office, and serve it."""
    with TemporaryDirectory(prefix="handraise-office-") as folder, socket.socket() as door:
        url = f"sqlite:///{Path(folder) / 'office.db'}"
        settings = ServerSettings(url=url, admin=PERSON, workspace="default", log_level="error")
        waiting = await fill_office(settings, person=PERSON)
        door.bind(("127.0.0.1", 0))
        async with open_context(settings) as ctx, listening(create_app(ctx), door):
            settled = await ctx.desk.list_settled(asker=SUPPORT, limit=50)
            done = next(each.id for each in settled if each.report)
            yield Office(ctx, f"http://127.0.0.1:{door.getsockname()[1]}", waiting, done)
