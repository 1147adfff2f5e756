"""In what language a page is shown, and on which clock: the person decides, then the browser, then the server's settings."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from handraise.model.identities import Person
from handraise.presentation.translation import Locale, best_language, find_time_zone, person_locale
from handraise.server.settings import ServerSettings

TIME_ZONE_COOKIE = "time_zone"
"""Our script keeps the browser's time zone in it. It is no secret, and only names that are time zones count."""


def page_locale(connection: HTTPConnection, person: Person | None = None) -> Locale:
    """How the person who makes a request reads; `person` is None before it is known who that is."""
    settings: ServerSettings = connection.app.state.ctx.settings
    zone = connection.cookies.get(TIME_ZONE_COOKIE, "")
    browser = Locale(
        best_language(connection.headers.get("accept-language"), settings.language),
        zone if find_time_zone(zone) else settings.time_zone,
    )
    return browser if person is None else person_locale(person, browser)
