"""The page of limits has the numbers of the code."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from handraise.model.bulk_answers import MOST_ANSWERS
from handraise.model.drafting import Limits
from handraise.model.json_values import MAX_INTEGER
from handraise.model.search_words import MOST_QUERY
from handraise.model.thread_messages import MOST_MESSAGES
from handraise.model.validation import MAX_ANSWER, MAX_TEXT
from handraise.policies.rules import MAX_EXPRESSION, MAX_RULES
from handraise.ports.desk import MAX_PAGE_BYTES, MOST_ON_A_PAGE
from handraise.server import ServerSettings
from handraise.server.api.policy_routes import MOST_REPLAYED
from handraise.wire.requests import MOST_QUESTIONS
from support.doc_pages import DOCS, rows_of

PAGE = DOCS / "reference" / "limits.md"
NUMBERS = {
    "MAX_ANSWER": MAX_ANSWER,
    "MAX_EXPRESSION": MAX_EXPRESSION,
    "MAX_INTEGER": MAX_INTEGER,
    "MAX_PAGE_BYTES": MAX_PAGE_BYTES,
    "MAX_RULES": MAX_RULES,
    "MAX_TEXT": MAX_TEXT,
    "MOST_ANSWERS": MOST_ANSWERS,
    "MOST_MESSAGES": MOST_MESSAGES,
    "MOST_ON_A_PAGE": MOST_ON_A_PAGE,
    "MOST_QUERY": MOST_QUERY,
    "MOST_QUESTIONS": MOST_QUESTIONS,
    "MOST_REPLAYED": MOST_REPLAYED,
    **{f"Limits.{name}": value for name, value in asdict(Limits()).items()},
}
NOT_ON_THE_PAGE = {"Limits.pattern", "Limits.checked", "Limits.links", "Limits.unused_bytes"}
"""Nobody meets these without being told the number by the refusal."""
SHOWN = re.findall(r"([\d,]+)[^|<,]*? <!-- ([\w.]+) -->", PAGE.read_text(encoding="utf-8"))


def test_every_number_is_that_of_the_code() -> None:
    assert {name: int(shown.replace(",", "")) for shown, name in SHOWN} == {
        name: NUMBERS[name] for _, name in SHOWN
    }


def test_no_limit_is_missing() -> None:
    assert NUMBERS.keys() - {name for _, name in SHOWN} == NOT_ON_THE_PAGE


SETTINGS = [(cells[2].strip("`"), cells[1]) for cells in rows_of(PAGE) if cells[-1].startswith("`HANDRAISE_")]


@pytest.mark.parametrize(("variable", "shown"), SETTINGS)
def test_a_setting_has_its_default(variable: str, shown: str) -> None:
    default = ServerSettings.model_fields[variable.removeprefix("HANDRAISE_").lower()].default
    numbers = re.findall(r"\d+", shown.replace(",", ""))
    assert re.findall(r"\d+", str(default).split(".")[0])[0] in numbers
