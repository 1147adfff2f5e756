"""The file of a configuration: what may be in it, on which line a problem is, and its JSON Schema."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handraise.config import apply_config, config_schema, parse_config
from handraise.config.config_file import SCHEMA_ADDRESS, read_config_text, write_config_text
from handraise.desk_factory import open_backend
from handraise.errors import InvalidRequest
from handraise.model.problems import Problem

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "reference" / "office.schema.json"
EXAMPLE = (ROOT / "examples" / "office" / "office.yaml").read_text(encoding="utf-8")


def problems_of(document: Any) -> list[Problem]:
    with pytest.raises(InvalidRequest) as refused:
        parse_config(document)
    return list(refused.value.problems)


def json_schema_validator() -> Any:
    """The check that an editor does."""
    # The import takes four seconds, in each worker that collects this file.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    return Draft202012Validator(config_schema())


def test_the_schema_in_the_documentation_is_that_of_the_model() -> None:
    made = json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("HANDRAISE_WRITE"):
        SCHEMA.write_text(made, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == made, (
        "Write it anew: HANDRAISE_WRITE=1 pytest tests/config/test_config_document.py"
    )


async def test_an_editor_accepts_the_example_and_what_is_exported_and_so_does_a_workspace() -> None:
    assert EXAMPLE.splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA_ADDRESS}"
    document, _ = read_config_text(EXAMPLE)
    validator = json_schema_validator()
    validator.validate(document)
    exported = parse_config(document).document()
    validator.validate(exported)
    assert parse_config(exported) == parse_config(document)
    async with open_backend("memory:") as ports:
        assert await apply_config(ports, document)
        assert not await apply_config(ports, read_config_text(write_config_text(exported))[0], prune=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"peple": {}},
        {"people": {"ann": {"role": "owner"}}},
        {"groups": {"ops": {"rota": {"adress": "https://example.com"}}}},
        {"policy": {"rules": [{"name": "x", "then": {"denny": "no"}}]}},
        {"quotas": {"pending": -1}},
        {"retention": {"keep_settled_days": "always"}},
    ],
)
def test_an_editor_refuses_what_is_refused(wrong: dict[str, Any]) -> None:
    assert problems_of(wrong)
    assert not json_schema_validator().is_valid(wrong)


def test_the_short_forms_of_a_policy_are_in_the_schema() -> None:
    rules = [
        {"name": "a", "then": "allow"},
        {"name": "b", "then": {"deny": "no"}},
        {"name": "c", "then": {"require": {"quorum": 2, "valid_for": "10m"}}},
    ]
    document = {"policy": {"rules": rules}}
    parse_config(document)
    json_schema_validator().validate(document)


def test_unknown_fields_are_refused_all_at_once_each_with_the_nearest_name() -> None:
    found = problems_of(
        {
            "peple": {},
            "people": {"ann": {"emial": "a@b"}},
            "groups": {"ops": {"hours": {"time_zone": "UTC", "hours": "Mon 09:00-10:00", "contry": "DE"}}},
            "policy": {"rules": [{"name": "x", "wen": "true", "then": {"require": {"quorom": 2}}}]},
        }
    )
    assert {each.path: each.message.partition("; ")[2] for each in found} == {
        "people.ann.emial": "did you mean 'email'?",
        "groups.ops.hours.contry": "did you mean 'country'?",
        "policy.rules.0.wen": "did you mean 'when'?",
        "policy.rules.0.then.require.quorom": "did you mean 'quorum'?",
        "peple": "did you mean 'people'?",
    }


@pytest.mark.parametrize("name", ["*", "group:ops", "policy:x", "admin:ci", "command line", " "])
def test_nobody_has_a_name_that_means_something_else(name: str) -> None:
    assert [each.path for each in problems_of({"people": {name: None}})] == [f"people.{name}"]


def test_every_part_of_a_text_has_its_line() -> None:
    document, lines = read_config_text(EXAMPLE)
    written = EXAMPLE.splitlines()
    assert "large refunds" in written[lines["policy.rules.0"] - 1]
    assert written[lines["people.maria.email"] - 1].strip() == "email: maria@example.com"
    assert document["policy"]["rules"][0]["then"]["require"]["valid_for"] == "15m"


def test_a_text_means_what_yaml_now_means_and_not_what_it_meant() -> None:
    document, _ = read_config_text("a: 17:30\nb: on\nc: no\nd: 2026-01-01\ne: 012\nf: true\ng: ~\nh: 1.5\n")
    assert document == {
        "a": "17:30", "b": "on", "c": "no", "d": "2026-01-01", "e": "012", "f": True, "g": None, "h": 1.5
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("people:\n  ann:\n  ann:\n", "is written twice: on line 2 and on line 3"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("people: [\n", "This is not YAML"),
        ('{"people": ', "This is not JSON"),
        ("a: !!python/object:os.system x\n", "This is not YAML"),
    ],
)
def test_a_text_that_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read_config_text(text)


def test_json_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "handraise.config.yaml_document", None)
    assert read_config_text('{"people": {"ann": null}}') == ({"people": {"ann": None}}, {})
    with pytest.raises(ImportError):
        read_config_text("people:\n  ann:\n")
