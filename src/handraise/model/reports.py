"""Reports: what came of an answer, in the words of the agent that acted on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.json_values import Json, canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of an answer: whether it worked, and what the asker says about it.

    Everything but `at` is the asker's own words. Nobody has checked them, and nobody vouches for the `link`.
    """

    ok: bool
    text: str = field(repr=False)
    link: str | None = field(default=None, repr=False)
    details: Json = field(default=None, repr=False)
    at: datetime

    def says(self, record: dict[str, Json]) -> bool:
        """Whether this is the report that a record would make, whenever it was made."""
        return canonical_json(self.record()) == canonical_json(record)

    def record(self) -> dict[str, Json]:
        """The part that is stored besides the instant."""
        return report_record(ok=self.ok, text=self.text, link=self.link, details=self.details)


def report_record(*, ok: bool, text: str, link: str | None, details: Json) -> dict[str, Json]:
    """What is stored of a report, in the question and in its event. What was not given is left out."""
    given = {"ok": ok, "text": text, "link": link, "details": details}
    return {name: value for name, value in given.items() if value is not None}


def report_of(at: datetime, record: dict[str, Json]) -> Report:
    """Build a report from what is stored."""
    return Report(
        ok=record["ok"],
        text=record["text"],
        link=record.get("link"),
        details=record.get("details"),
        at=at,
    )
