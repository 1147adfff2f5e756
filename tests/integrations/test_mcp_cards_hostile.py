"""A model that calls the tools of cards, and a client that lets it: nothing is answered without the card's key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handraise.events import EventKind
from handraise.integrations.mcp.card_calls import CardKeys
from tests.integrations.app_mcp_clients import LEGACY, MODERN, OnCard, Table, table
from tests.server.inbox.hostile import TEXTS

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])
KEY = "k" * 32
STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"]}
REFUND = {"action": "refund", "arguments": {"amount": 40}}
APPROVE = json.dumps({"seen": 0, "decision": "approve"})

DENY = json.dumps({"seen": 0, "decision": "deny"})


def forgeries(card: OnCard, other: OnCard) -> dict[str, dict[str, Any]]:
    """What somebody could call who does not have the key of the card, or does not know how it is used."""
    signed = card.signed("card_answer", APPROVE)
    return {
        "nothing": {},
        "only the id": {"question_id": card.question_id, "request": APPROVE},
        "empty signature": signed | {"signature": ""},
        "made-up signature": signed | {"signature": "0" * 64},
        "odd signature": signed | {"signature": "é\ud7ff"},
        "signature is a list": signed | {"signature": [signed["signature"]]},
        "signed for another tool": card.signed("card_state", APPROVE),
        "signed with the key of another question": other.signed("card_answer", APPROVE)
        | {"question_id": card.question_id},
        "another request than was signed": card.signed("card_answer", DENY) | {"request": APPROVE},
        "no request": card.signed("card_answer", "null"),
        "request is no JSON": card.signed("card_answer", "{"),
        "request is deep": card.signed("card_answer", "[" * 100_000),
        "request is huge": card.signed("card_answer", json.dumps({"x": "y" * 600_000})),
        "the model's own words": {
            "question_id": card.question_id,
            "decision": "approve",
            "person": "ana",
        },
    }


@both_eras
async def test_a_model_that_calls_a_card_tool_without_its_key_decides_nothing(era: str) -> None:
    async with table(era, cards=True) as t:
        card, other = await t.card("request_approval", **REFUND), await t.card("ask_human", **STRATEGY)
        for name, arguments in forgeries(card, other).items():
            result = await t.client.call_tool("card_answer", arguments)
            assert result.is_error, name
            assert result.structured_content["code"] == "permission_denied", name
            assert "nothing was changed" in result.structured_content["reason"], name
        assert await recorded(t, card) == await recorded(t, other) == []
        assert (await card("card_answer", seen=0, decision="approve"))["status"] == "answered"


async def recorded(t: Table, card: OnCard) -> list[str]:
    return [each.kind for each in await t.desk.history(card.question_id) if each.kind != EventKind.ASKED]


async def test_the_key_is_in_no_result_that_a_model_reads_and_in_no_call_of_the_card() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        results = [
            await t.client.call_tool("collect_answer", {"question_id": card.question_id, "wait_seconds": 0}),
            await t.client.call_tool("card_state", card.signed("card_state", "{}")),
        ]
        for result in results:
            assert card.key not in result.model_dump_json()
        assert card.key not in json.dumps(card.signed("card_answer", APPROVE))


async def test_a_call_of_the_card_that_somebody_has_read_cannot_be_repeated() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        asked = card.signed("card_ask_back", json.dumps({"seen": 0, "text": "Why?"}))
        await t.client.call_tool("card_ask_back", asked)
        again = await t.client.call_tool("card_ask_back", asked)
        assert "moved on" in again.structured_content["problems"][0]["text"]
        assert len(await t.desk.thread(card.question_id)) == 1


@both_eras
async def test_an_action_of_high_risk_is_shown_on_a_card_and_not_decided_there(era: str) -> None:
    async with table(era, cards=True) as t:
        card = await t.card("request_approval", **REFUND, risk="high")
        view = await card("card_state")
        assert (view["can_answer"], view["parts"]) == (False, [])
        assert "inbox" in view["why_not"]
        for tool, request in (
            ("card_answer", {"decision": "approve"}),
            ("card_send_back", {"text": "No."}),
            ("card_decline", {}),
        ):
            assert (await card(tool, seen=0, **request))["problems"], tool
        assert await recorded(t, card) == []


async def test_a_person_to_whom_it_is_not_addressed_cannot_answer_on_the_card() -> None:
    async with table(LEGACY, cards=True, recipients=["bo"]) as t:
        card = await t.card("ask_human", **STRATEGY)
        assert not (await card("card_state"))["can_answer"]
        for tool, request in (
            ("card_answer", {"parts": {"f0": {"picked": [0]}}}),
            ("card_ask_back", {"text": "?"}),
        ):
            assert (await card(tool, seen=0, **request))["problems"], tool
        assert await recorded(t, card) == []


async def test_a_key_counts_only_for_its_person_its_question_and_the_secrets_of_the_server() -> None:
    keys = CardKeys.of([KEY])
    names = ("default", "the-question", "ana")
    assert len({keys.key(*names), keys.key("other", *names[1:]), keys.key(*names[:2], "bo")}) == 3
    assert keys.key("a", "b", "c") != keys.key("a", "bc", "")
    assert CardKeys.of(()).key(*names) != CardKeys.of(()).key(*names)
    assert KEY not in repr(keys)


async def test_a_card_from_before_a_restart_works_if_the_servers_share_a_secret(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with table(LEGACY, cards=True, url=url, state_keys=[KEY]) as t:
        card = await t.card("ask_human", **STRATEGY)
    async with table(LEGACY, cards=True, url=url) as t:
        result = await t.client.call_tool("card_state", card.signed("card_state", "{}"))
        assert result.is_error
    async with table(LEGACY, cards=True, url=url, state_keys=["n" * 32, KEY]) as t:
        card.table = t
        assert (await card("card_answer", seen=0, parts={"f0": {"picked": [0]}}))["status"] == "answered"


MALFORMED: list[dict[str, Any]] = [
    {},
    {"seen": True},
    {"seen": "0"},
    {"seen": 5, "decision": "approve"},
    {"seen": 0},
    {"seen": 0, "decision": "yes"},
    {"seen": 0, "decision": True},
    {"seen": 0, "decision": ["approve"]},
    {"seen": 0, "decision": "APPROVE"},
]


@pytest.mark.parametrize("request_number", range(len(MALFORMED)))
async def test_a_malformed_request_of_a_card_decides_nothing(request_number: int) -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        view = await card("card_answer", **MALFORMED[request_number])
        assert (view["status"], bool(view["problems"])) == ("pending", True)
        assert EventKind.ANSWERED not in await recorded(t, card)


async def test_what_an_agent_writes_has_nothing_invisible_on_the_card() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("ask_human", question="a\u202eb", choices=["c\u200bd"], context="e\x1bf")
        view = await card("card_state")
        assert (view["prompt"], view["context"]) == ("a‹U+202E›b", "e‹U+001B›f")
        assert view["parts"][0]["options"][0]["label"] == "c‹U+200B›d"
        card = await t.card("ask_human", question=f"x{TEXTS[0]}")
        assert (await card("card_state"))["prompt"] == f"x{TEXTS[0]}"  # the page makes a text node of it
