"""Schemas, patterns, answers and bodies that are small to send and large to work through: refused, or done with soon."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from handraise import Approval, Choice, Field, Form, InvalidAnswer, InvalidQuestion, Open
from handraise.model.drafting import compose
from handraise.model.schema_reader import form_from_schema
from handraise.model.validation import MAX_TEXT, check_answer, pattern_problem
from handraise.questions import Limits
from handraise.testing import promise
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.tiers import sized

pytestmark = pytest.mark.timeout(60)


def deep(levels: int, inside: Any = 1) -> Any:
    for _ in range(levels):
        inside = {"a": inside}
    return inside


def chained(length: int) -> dict[str, Any]:
    steps = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {**steps, f"d{length}": {"type": "string"}}


def laughing(levels: int) -> dict[str, Any]:
    """Each level is twice the one below: a billion of the last, if anybody writes them out."""
    steps = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {**steps, f"d{levels}": {"type": "string"}}


def with_definitions(definitions: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def with_field(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "a circle": lambda: with_definitions({"d0": {"$ref": "#/$defs/d0"}}),
    "a circle of two": lambda: with_definitions({"d0": {"$ref": "#/$defs/d1"}, "d1": {"$ref": "#/$defs/d0"}}),
    "the whole in itself": lambda: with_field({"$ref": "#"}),
    "a long chain": lambda: with_definitions(chained(50_000)),
    "a billion laughs": lambda: with_definitions(laughing(40)),
    "somebody's server": lambda: with_field({"$ref": "https://evil.example/schema.json"}),
    "somebody's file": lambda: with_field({"$ref": "file:///etc/passwd#/x"}),
    "very deep": lambda: with_field(deep(50_000)),
    "many options": lambda: with_field({"enum": [f"o{n}" for n in range(50_000)]}),
    "many fields": lambda: {
        "type": "object",
        "properties": {f"f{n}": {"type": "string"} for n in range(sized(gate=5_000, nightly=50_000))},
    },
    "a long name": lambda: {"type": "object", "properties": {"x" * 2_000_000: {"type": "string"}}},
    "a long title": lambda: with_field({"type": "string", "title": "x" * 2_000_000}),
    "a large number": lambda: with_field({"type": "integer", "minimum": 10**4_000}),
    "no number": lambda: with_field({"type": "number", "maximum": float("nan")}),
    "a long pattern": lambda: with_field({"type": "string", "pattern": "(a|b)" * 100_000}),
    "a deep pattern": lambda: with_field({"type": "string", "pattern": "(" * 50_000 + ")" * 50_000}),
    "repetitions": lambda: with_field({"type": "string", "pattern": "((a{9}){9}){9}" * 9}),
}


@promise("P10")
@pytest.mark.parametrize("bomb", SCHEMAS)
def test_a_schema_that_is_a_bomb_is_refused(bomb: str) -> None:
    with pytest.raises(InvalidQuestion):
        compose(
            "?",
            {"form": form_from_schema(SCHEMAS[bomb]())},
            new_id="q",
            workspace="w",
            asker="bot",
            limits=Limits(),
        )


def test_no_schema_makes_anybody_connect_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise AssertionError("somebody's schema was fetched")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, nowhere)
    with suppress(InvalidQuestion):
        form_from_schema(with_field({"$ref": "https://evil.example/schema.json"}))


def test_as_many_patterns_as_a_form_may_have_are_looked_for_soon() -> None:
    """Each the dearest that is allowed, in the longest answers that are."""
    allowed = [n for n in range(1, 2_000) if pattern_problem(f"\\w{{{n}}}!") is None]
    pattern = f"\\w{{{max(allowed)}}}!"
    fields = tuple(Field(name=f"f{n}", form=Open(pattern=pattern)) for n in range(Limits().fields))
    form = Form(fields=fields)
    compose("?", {"form": form}, new_id="q", workspace="w", asker="bot", limits=Limits())
    with pytest.raises(InvalidAnswer):
        check_answer(form, {each.name: "é" * (MAX_TEXT // len(fields)) for each in fields})


ANSWERS: dict[str, Callable[[], Any]] = {
    "deep": lambda: deep(900),
    "wide": lambda: {f"k{n}": n for n in range(sized(gate=50_000, nightly=200_000))},
    "long": lambda: "x" * 5_000_000,
    "a large number": lambda: 10**4_000,
    "many": lambda: ["a"] * sized(gate=100_000, nightly=500_000),
}


@pytest.mark.parametrize("bomb", ANSWERS)
@pytest.mark.parametrize(
    "form",
    [Choice.of("a", "b"), Open(), Open(type="integer"), Approval.of("pay", {"n": 1}, editable=["n"])],
    ids=lambda form: form.kind,
)
def test_an_answer_that_is_a_bomb_does_not_fit(form: Any, bomb: str) -> None:
    with pytest.raises(InvalidAnswer):
        check_answer(form, ANSWERS[bomb]())


BODIES: dict[str, bytes] = {
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "deep context": b'{"prompt": "?", "context": ' + b'{"a":' * 9_000 + b"1" + b"}" * 9_000 + b"}",
    "digits": b'{"prompt": "?", "context": ' + b"9" * 200_000 + b"}",
    "exponents": b'{"prompt": "?", "context": [1e999, -1e999, 1e-999]}',
    "no numbers": b'{"prompt": "?", "context": [NaN, Infinity]}',
    "commas": b'{"prompt": "?", "context": [' + b"1," * 100_000 + b"1]}",
    "the same key": b'{"prompt": "?", ' + b'"context": 1, ' * 15_000 + b'"context": 2}',
    "surrogates": b'{"prompt": "' + rb"\ud800" * 1_000 + b'"}',
    "nothing": b"\x00" * 200_000,
    "a schema": json.dumps({"prompt": "?", "form": with_definitions(laughing(30))}).encode(),
}


@promise("P10")
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("bomb", BODIES)
async def test_a_body_that_is_a_bomb_is_refused_and_others_are_served(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, bomb: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot")) | {"content-type": "application/json"}
    sending = [client.post("/v1/questions", content=BODIES[bomb], headers=agent) for _ in range(5)]
    asking = client.post("/v1/questions", json={"prompt": "Which?"}, headers=agent)
    *refused, asked = await asyncio.gather(*sending, asking)
    assert {each.status_code for each in refused} <= {400, 413, 422}
    assert asked.status_code == 201
