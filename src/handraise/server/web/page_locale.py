"""In what language a page is shown, and on which clock: the person decides, then the browser, then the server's settings."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from handraise.presentation.translation import Locale, best_language, find_time_zone
from handraise.server.auth.authenticator import context_of

TIME_ZONE_COOKIE = "time_zone"
"""Our script keeps the browser's time zone in it. It is no secret, and only names that are time zones count."""


def page_locale(connection: HTTPConnection) -> Locale:
    """The locale of a request before it is known who makes it."""
    settings = context_of(connection).settings
    zone = connection.cookies.get(TIME_ZONE_COOKIE, "")
    return Locale(
        best_language(connection.headers.get("accept-language"), settings.language),
        zone if find_time_zone(zone) else settings.time_zone,
    )
