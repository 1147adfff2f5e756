"""Check a report before it is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator

from handraise.model.drafting import Limits
from handraise.model.errors import InvalidReport
from handraise.model.json_values import Json, JsonValue, canonical_json, json_problems, text_problem
from handraise.model.problems import Problem
from handraise.model.reports import report_record
from handraise.model.web_links import link_problems


def check_report(
    limits: Limits, *, ok: bool, text: str, link: str | None, details: JsonValue
) -> dict[str, Json]:
    """Return the record of a report; raise `InvalidReport` if it cannot be kept or shown."""
    problems = [
        *_ok_problems(ok),
        *_text_problems(text, limits.prompt),
        *(() if link is None else link_problems("link", link)),
        *_details_problems(details, limits),
    ]
    if problems:
        raise InvalidReport(problems)
    # A copy: a list of the caller's may change later.
    return report_record(ok=ok, text=text, link=link, details=json.loads(json.dumps(details)))


def _ok_problems(ok: object) -> Iterator[Problem]:
    if not isinstance(ok, bool):
        yield Problem("ok", "expected True or False")


def _text_problems(text: object, longest: int) -> Iterator[Problem]:
    if not isinstance(text, str):
        yield Problem("text", "expected a text")
    elif not text.strip():
        yield Problem("text", "is empty: say what came of it")
    elif why := text_problem(text):
        yield Problem("text", why)
    elif len(text) > longest:
        yield Problem("text", f"has more than {longest} characters")


def _details_problems(details: JsonValue, limits: Limits) -> Iterator[Problem]:
    problems = list(json_problems(details, "details", depth=limits.json_depth))
    yield from problems
    if not problems and details is not None and len(canonical_json(details)) > limits.json_bytes:
        yield Problem("details", f"are larger than {limits.json_bytes} characters")
