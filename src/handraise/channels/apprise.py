"""Apprise: a notification through any of some two hundred services, with a link to the question.

`pip install "handraise[apprise]"`. An address is `{"url": "tgram://…"}`: an Apprise URL, of a service that the operator
names. It contains secrets: no URL is logged, shown in an error, or given out.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING

from handraise.channels.message_texts import heading_of, shortened, waiting_text
from handraise.channels.network_guard import guarded, hush
from handraise.channels.plain_messages import ended_lines, fitting, lines_of, mention_of
from handraise.channels.safe_http import IPNetwork
from handraise.model.errors import MissingExtra
from handraise.model.json_values import Json
from handraise.ports.channel import Message, NotSent

try:
    import apprise
    from apprise.common import NotifyFormat, NotifyType
    from apprise.manager_plugins import NotificationManager
    from apprise.result import AppriseResultStatus
except ImportError as error:
    raise MissingExtra("Apprise", "apprise") from error

if TYPE_CHECKING:
    from apprise.plugins.base import NotifyBase

_LONGEST_URL = 2_000
_LONGEST_TITLE = 120
_LEAST_ROOM, _MOST_ROOM = 300, 1_500
_FOR_MARKUP = 200
_CONNECT_WITHIN, _ANSWER_WITHIN = 5.0, 10.0
_AT_ONCE = 16
_A_WHILE = timedelta(hours=1)
_HALF_HIDDEN = re.compile(r"@(?=(?:everyone|here|channel|all|room)\b)|<(?=\S)|(?<=\])\((?=\S)", re.IGNORECASE)
_SHOWN = {"@": "＠", "<": "‹", "(": " ("}
"""Text that notifies everybody, or hides where a link leads, in services that interpret it."""


@asynccontextmanager
async def open_apprise(
    *, schemes: Collection[str], allowed: Sequence[IPNetwork] = ()
) -> AsyncIterator[Apprise]:
    """Notifications through these services, for as long as this context lasts."""
    with ThreadPoolExecutor(1, thread_name_prefix="handraise apprise") as loading:
        known = await asyncio.get_running_loop().run_in_executor(loading, _load)
    if unknown := sorted(set(schemes) - known):
        raise ValueError(f"Apprise has no service {unknown[0]}://; see HANDRAISE_APPRISE_SCHEMES.")
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="handraise apprise")
    try:
        yield Apprise(threads, schemes, allowed)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class Apprise:
    """Tells people through Apprise. See `handraise.ports.channel`."""

    name = "apprise"
    private = False
    """Nobody here knows who can read it on the way, so no link in it answers."""
    patience = timedelta(hours=6)

    def __init__(
        self, threads: ThreadPoolExecutor, schemes: Collection[str], allowed: Sequence[IPNetwork]
    ) -> None:
        self._threads = threads
        self._schemes = frozenset(schemes)
        self._allowed = allowed

    def rate_limit_key(self, to: Json) -> str | None:
        """The service, and a number that usually tells hosts apart and reveals no secret."""
        url = to.get("url") if isinstance(to, dict) and to.keys() == {"url"} else None
        service = self._service(url)
        if service is None or not isinstance(url, str):
            return None
        return f"apprise {_scheme_of(url)} {hashlib.sha256(url.encode()).hexdigest()[:2]}"

    async def send(self, message: Message) -> Json:
        """Send a notification. Apprise cannot recognise a second copy."""
        if len(message.notices) > 1:
            title = waiting_text(len(message.notices))
            return await self._notify(message.to, title, [*map(mention_of, message.notices)])
        [notice] = message.notices
        return await self._notify(message.to, heading_of(notice.question), [[notice.link], lines_of(notice)])

    async def update(self, message: Message, receipt: Json) -> None:
        """Send a second notification that says how it ended: what was sent through Apprise cannot be changed."""
        del receipt
        [notice] = message.notices
        ended, lines = ended_lines(notice.question)
        await self._notify(message.to, ended, [lines])

    async def _notify(self, to: Json, title: str, parts: Sequence[Iterable[str]]) -> Json:
        url = to.get("url") if isinstance(to, dict) else None
        lines = [line if line.startswith("http") else _plain(line) for part in parts for line in part]
        loop = asyncio.get_running_loop()
        # The thread has to know the language, too.
        context, shown = copy_context(), _plain(shortened(title, _LONGEST_TITLE))
        status, refused = await loop.run_in_executor(
            self._threads, lambda: context.run(self._deliver, url, shown, lines)
        )
        match status:
            case AppriseResultStatus.SUCCESS | AppriseResultStatus.PARTIAL:
                # If it was sent in part, somebody has it: if it were sent again, they would have it twice.
                return {"status": status.name.lower()}
            case AppriseResultStatus.NOMATCH:
                raise NotSent("its address makes no sense any more", again=False)
            case _ if refused:
                raise NotSent("it leads to something that must not be reached", within=_A_WHILE)
            case _:
                raise NotSent("Apprise could not deliver it")

    def _deliver(self, url: object, title: str, lines: Sequence[str]) -> tuple[AppriseResultStatus, bool]:
        """Send it from a thread that may wait; also says whether something was refused on the way."""
        with guarded(self._allowed) as guard:
            service = self._service(url)
            if service is None:
                return AppriseResultStatus.NOMATCH, guard.refused
            room = max(_LEAST_ROOM, min(_MOST_ROOM, service.body_maxlen - _FOR_MARKUP))
            try:
                everybody = apprise.Apprise(asset=service.asset)
                everybody.add(service)
                result = everybody.notify(
                    body=fitting(lines, room),
                    title=title,
                    notify_type=NotifyType.INFO,
                    body_format=NotifyFormat.TEXT,
                )
            except Exception:  # noqa: BLE001 -- any error of a service may have the URL in it
                return AppriseResultStatus.FAILURE, guard.refused
            return result.status, guard.refused

    def _service(self, url: object) -> NotifyBase | None:
        """What an address leads to, or None if it makes no sense or is of a service that is not allowed."""
        if not isinstance(url, str) or not 1 <= len(url) <= _LONGEST_URL or not url.isprintable():
            return None
        if _scheme_of(url) not in self._schemes or " " in url:
            return None
        with guarded(self._allowed):
            service = apprise.Apprise.instantiate(url, asset=_asset())
        # A service's own URL, such as https://…, would stand for another scheme.
        if service is None or service.schema not in self._schemes:
            return None
        service.socket_connect_timeout = min(service.socket_connect_timeout, _CONNECT_WITHIN)
        service.socket_read_timeout = min(service.socket_read_timeout, _ANSWER_WITHIN)
        service.verify_certificate = True
        return service


def _scheme_of(url: str) -> str:
    return url.partition("://")[0].lower()


def _asset() -> apprise.AppriseAsset:
    """How Apprise works here: in the thread that calls it, without files, templates or redirects."""
    return apprise.AppriseAsset(
        app_id="Handraise",
        app_desc="Handraise",
        app_url="",
        async_mode=False,
        service_timeout=0,
        allow_templates=False,
        http_redirects=False,
        storage_mode="memory",
        interpret_escapes=False,
        interpret_emojis=False,
        secure_logging=True,
        pem_autogen=False,
        pgp_autogen=False,
    )


def _load() -> set[str]:
    """Import the services before any is guarded, and give the names of all that are enabled here."""
    schemes = set(NotificationManager().schemas())  # type: ignore[no-untyped-call]  # it has no types
    hush("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib", "slixmpp", "paho", "gntp")
    return schemes


def _plain(text: str) -> str:
    return _HALF_HIDDEN.sub(lambda found: _SHOWN[found[0]], text)
