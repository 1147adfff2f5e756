"""Public holidays, by the `holidays` library, which is an extra."""

from __future__ import annotations

import logging
from datetime import date
from functools import lru_cache

from handraise.model.errors import MissingExtra
from handraise.model.working_hours import IsHoliday, WorkingHours

_log = logging.getLogger(__name__)


def holidays_of(hours: WorkingHours) -> IsHoliday:
    """Whether a day is a public holiday where these hours hold. If that cannot be known, no day is."""
    try:
        return _calendar(hours.country, hours.subdivision)
    except (MissingExtra, ValueError) as error:
        _log.warning("public holidays are left out: %s", error, extra={"event": "holidays_left_out"})
        return _never


def check_holidays(hours: WorkingHours) -> None:
    """Raise `ValueError` if nobody knows the holidays of this place, and `MissingExtra` without the library."""
    _calendar(hours.country, hours.subdivision)


@lru_cache(maxsize=200)
def _calendar(country: str | None, subdivision: str | None) -> IsHoliday:
    if country is None:
        return _never
    try:
        import holidays  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("holidays", "calendars") from error
    try:
        found = holidays.country_holidays(country, subdiv=subdivision)
    except NotImplementedError:
        place = country if subdivision is None else f"{country}-{subdivision}"
        raise ValueError(f"the holidays of {place} are not known: use codes such as DE and BY") from None
    return found.__contains__


def _never(day: date) -> bool:
    del day
    return False
