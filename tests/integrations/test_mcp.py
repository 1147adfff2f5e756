"""Any MCP client asks people: in both eras of the protocol, answered at the client or elsewhere."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import mcp_types as types
import pytest

from handraise import Answered, Declined, PermissionDenied, Responder, open_desk
from handraise.events import EventKind
from handraise.integrations.mcp import ClientPerson, mcp_server
from handraise.model.provenance import Provenance
from handraise.testing import ManualClock
from tests.integrations.app_mcp_clients import (
    CANCEL,
    DECLINE,
    LEGACY,
    MODERN,
    AtClient,
    Filled,
    accept,
    parts_of,
    table,
)
from tests.integrations.cells import shows

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])

STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"]}
REFUND = {
    "action": "refund",
    "arguments": {"order": "A-17", "amount": 40},
    "why": "The parcel was lost.",
    "editable": ["amount"],
}


@both_eras
async def test_the_tools_are_told_with_their_parameters(era: str) -> None:
    async with table(era) as t:
        tools = {each.name: each for each in (await t.client.list_tools()).tools}
    assert list(tools) == ["ask_human", "request_approval", "collect_answer", "reply_to_person"]
    for each in tools.values():
        assert each.input_schema["additionalProperties"] is False
        assert each.description
    assert tools["collect_answer"].input_schema["required"] == ["question_id"]


@both_eras
@shows("mcp", "ask")
async def test_the_clients_user_answers_there_and_it_is_kept_as_the_word_of_a_program(era: str) -> None:
    user = AtClient([accept(answer="Canary")])
    async with table(era, user=user) as t:
        result = await t.call("ask_human", **STRATEGY, context="It is Friday.")
        [question] = await t.all()
    assert result == {
        "status": "answered",
        "question_id": question.id,
        "value": "Canary",
        "text": "Canary",
        "source": "person",
        "by": "ana",
        "evidence": "client-asserted",
    }
    outcome = question.outcome
    assert isinstance(outcome, Answered)
    assert (outcome.by, outcome.channel, outcome.evidence) == ("ana", "mcp", "client-asserted")
    [form] = user.shown
    assert form.message == "agent asks:\n> Which strategy?\nWhat the agent says about it:\n> It is Friday."


@both_eras
@shows("mcp", "ask")
async def test_a_client_that_cannot_show_forms_waits_for_an_answer_elsewhere(era: str) -> None:
    async with table(era) as t:
        calling = asyncio.create_task(t.call("ask_human", **STRATEGY))
        [question] = await t.asked()
        await t.desk.answer(question.id, "Canary", by="bo", provenance=Provenance(channel="inbox"))
        result = await calling
    assert (result["status"], result["value"], result["by"]) == ("answered", "Canary", "bo")
    assert "evidence" not in result


@both_eras
async def test_without_a_person_the_client_is_shown_nothing(era: str) -> None:
    user = AtClient([accept(answer="Canary")])
    async with table(era, user=user, person=None, wait=0.05) as t:
        result = await t.call("ask_human", **STRATEGY)
    assert (result["status"], user.shown) == ("still_pending", [])


@both_eras
async def test_a_person_to_whom_it_is_not_addressed_is_shown_nothing(era: str) -> None:
    user = AtClient([accept(answer="Canary")])
    async with table(era, user=user, wait=0.05, recipients=["bo"]) as t:
        result = await t.call("ask_human", **STRATEGY)
    assert (result["status"], user.shown) == ("still_pending", [])


async def test_answered_elsewhere_the_open_form_is_called_off() -> None:
    called_off = asyncio.Event()

    async def thinks() -> Filled:
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()
        raise AssertionError

    async with table(LEGACY, user=AtClient([thinks])) as t:
        calling = asyncio.create_task(t.call("ask_human", **STRATEGY))
        [question] = await t.asked()
        await t.desk.answer(question.id, "Canary", by="bo")
        result = await calling
        async with asyncio.timeout(5):
            await called_off.wait()
    assert (result["value"], result["by"]) == ("Canary", "bo")


@both_eras
async def test_answered_elsewhere_while_the_form_is_open_the_first_answer_wins(era: str) -> None:
    async with table(era, user=(user := AtClient())) as t:

        async def too_late() -> Filled:
            [question] = await t.asked()
            await t.desk.answer(question.id, "Canary", by="bo")
            return accept(answer="Blue-green")

        user.fills.append(too_late)
        result = await t.call("ask_human", **STRATEGY)
        [question] = await t.all()
        kinds = [event.kind for event in await t.desk.history(question.id)]
    assert (result["value"], result["by"]) == ("Canary", "bo")
    assert kinds.count(EventKind.ANSWERED) == 1


@both_eras
async def test_a_question_that_outlives_its_call_comes_back_by_its_id(era: str) -> None:
    async with table(era) as t:
        left = await t.call("ask_human", **STRATEGY, wait_seconds=0)
        assert left["status"] == "still_pending"
        assert "collect_answer" in left["note"]
        await t.desk.answer(left["question_id"], "Canary", by="bo")
        result = await t.call("collect_answer", question_id=left["question_id"])
    assert (result["status"], result["value"]) == ("answered", "Canary")


@both_eras
async def test_no_call_waits_longer_than_the_server_allows(era: str) -> None:
    async with table(era, wait=0.05) as t:
        result = await t.call("ask_human", **STRATEGY, wait_seconds=86_400)
    assert result["status"] == "still_pending"


@both_eras
async def test_collecting_shows_the_form_again_unless_it_was_closed(era: str) -> None:
    async with table(era, user=(user := AtClient()), wait=0.05) as t:
        left = await t.call("ask_human", **STRATEGY, wait_seconds=0)
        assert user.shown == []
        user.fills.append(accept(answer="Canary"))
        collected = await t.call("collect_answer", question_id=left["question_id"])
        assert (collected["value"], len(user.shown)) == ("Canary", 1)

        user.fills.append(CANCEL)
        closed = await t.call("ask_human", question="And when?")
        user.fills.append(accept(answer="now"))
        result = await t.call("collect_answer", question_id=closed["question_id"])
    assert (closed["status"], result["status"], len(user.shown)) == ("still_pending", "still_pending", 2)


@both_eras
@shows("mcp", "several at once")
async def test_two_at_once_answered_in_reverse_reach_their_own_calls(era: str) -> None:
    async with table(era) as t:
        first = asyncio.create_task(t.call("ask_human", question="First?"))
        await t.asked()
        second = asyncio.create_task(t.call("ask_human", question="Second?"))
        one, two = await t.asked(2)
        await t.desk.answer(two.id, "to the second", by="bo")
        assert (await second)["value"] == "to the second"
        assert not first.done()
        await t.desk.answer(one.id, "to the first", by="bo")
        assert (await first)["value"] == "to the first"


@both_eras
@shows("mcp", "asks once")
async def test_the_same_call_again_is_the_same_question_while_it_is_pending(era: str) -> None:
    async with table(era) as t:
        calls = [asyncio.create_task(t.call("ask_human", **STRATEGY)) for _ in range(3)]
        [question] = await t.asked()
        again = await t.call("ask_human", **STRATEGY, wait_seconds=0)
        await t.desk.answer(question.id, "Canary", by="bo")
        results = [await call for call in calls]
        assert len(await t.all()) == 1
        later = await t.call("ask_human", **STRATEGY, wait_seconds=0)
    assert {each["question_id"] for each in [*results, again]} == {question.id}
    assert later["question_id"] != question.id, "an answer of then is not one to be asked for now"


@both_eras
@shows("mcp", "asks once")
async def test_with_a_key_the_same_call_finds_the_answer_that_came_meanwhile(era: str) -> None:
    async with table(era) as t:
        left = await t.call("ask_human", **STRATEGY, key="deploy 42", wait_seconds=0)
        await t.desk.answer(left["question_id"], "Canary", by="bo")
        again = await t.call("ask_human", **STRATEGY, key="deploy 42")
        other = await t.call("ask_human", **STRATEGY, key="deploy 43", wait_seconds=0)
    assert (again["question_id"], again["value"]) == (left["question_id"], "Canary")
    assert other["question_id"] != left["question_id"]


@shows("mcp", "asks once")
async def test_a_call_that_comes_back_with_its_state_asks_once_however_often() -> None:
    async with table(MODERN, user=AtClient()) as t:
        first = await t.raw("ask_human", STRATEGY)
        assert isinstance(first, types.InputRequiredResult)
        results = [
            await t.raw("ask_human", STRATEGY, given=accept(answer="Canary"), state=first.request_state)
            for _ in range(3)
        ]
        [question] = await t.all()
        events = [event.kind for event in await t.desk.history(question.id)]
    assert [parts_of(each)["value"] for each in results] == ["Canary"] * 3
    assert events.count(EventKind.ANSWERED) == 1


@both_eras
@shows("mcp", "other endings")
async def test_declined_at_the_client_is_told_as_such(era: str) -> None:
    async with table(era, user=AtClient([DECLINE, DECLINE])) as t:
        result = await t.call("ask_human", **STRATEGY)
        approval = await t.call("request_approval", **REFUND)
        outcome = (await t.desk.get(result["question_id"])).outcome
    assert (result["status"], result["by"], result["evidence"]) == ("declined", "ana", "client-asserted")
    assert "not consent" in result["note"]
    assert isinstance(outcome, Declined)
    assert (approval["status"], approval["approved"]) == ("declined", False)


@both_eras
@shows("mcp", "other endings")
async def test_expired_and_withdrawn_are_told_as_such(era: str) -> None:
    clock = ManualClock()
    async with table(era, expires_in=timedelta(hours=1), desk_options={"clock": clock}) as t:
        one = await t.call("ask_human", **STRATEGY, wait_seconds=0)
        two = await t.call("request_approval", **REFUND, wait_seconds=0)
        three = await t.call("ask_human", question="And then?", wait_seconds=0)
        await t.desk.withdraw(three["question_id"])
        clock.advance(timedelta(hours=2))
        ended = [
            await t.call("collect_answer", question_id=each["question_id"]) for each in (one, two, three)
        ]
    assert [each["status"] for each in ended] == ["expired", "expired", "withdrawn"]
    assert ended[1]["approved"] is False
    assert all("value" not in each and each["note"] for each in ended)


@both_eras
async def test_an_answer_that_does_not_fit_is_told_in_the_form_and_asked_for_again(era: str) -> None:
    user = AtClient([accept(answer="Rolling"), accept(answer="Canary")])
    async with table(era, user=user) as t:
        result = await t.call("ask_human", **STRATEGY)
        events = [event.kind for event in await t.desk.history(result["question_id"])]
    assert result["value"] == "Canary"
    assert "That answer does not fit:\n- “Rolling” is not one of the options" in user.shown[1].message
    assert EventKind.ATTEMPTED in events


@both_eras
@pytest.mark.parametrize(
    ("arguments", "content", "value"),
    [
        ({"question": "How many?", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
         {"n": 3}, {"n": 3}),
        ({"question": "Which?", "choices": ["a", "b", "c"], "multiple": True},
         {"answer": ["c", "a"]}, ["a", "c"]),
        ({"question": "Which?", "choices": ["a", "b"], "allow_other": True},
         {"answer": "a", "other": " neither "}, {"other": "neither"}),
        ({"question": "Which?", "choices": ["a", "b"], "allow_other": True},
         {"answer": "b", "other": ""}, "b"),
        ({"question": "Say it", "schema": {"type": "object", "required": ["day"], "properties": {
            "day": {"type": "string", "format": "date"}, "note": {"type": "string"},
            "sure": {"type": "boolean"}, "size": {"type": "string", "enum": ["s", "m"]}}}},
         {"day": "2026-11-15", "note": "", "sure": False, "size": "m"},
         {"day": "2026-11-15", "sure": False, "size": "m"}),
    ],
    ids=["schema", "several", "other", "not other", "fields"],
)  # fmt: skip
async def test_every_kind_of_answer_can_be_given_at_the_client(
    era: str, arguments: dict[str, Any], content: dict[str, Any], value: Any
) -> None:
    async with table(era, user=AtClient([accept(**content)])) as t:
        result = await t.call("ask_human", **arguments)
    assert (result["status"], result["value"]) == ("answered", value)


@both_eras
@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("ask_human", {}, "question"),
        ("ask_human", {"question": " "}, "question"),
        ("ask_human", {"question": "q", "surprise": 1}, "surprise"),
        ("ask_human", {"question": "q", "choices": []}, "choices"),
        ("ask_human", {"question": "q", "choices": ["a"], "schema": {}}, "schema"),
        ("ask_human", {"question": "q", "multiple": True}, "choices"),
        ("ask_human", {"question": "q", "key": "k" * 300}, "key"),
        ("ask_human", {"question": "q" * 10_001}, "question"),
        ("ask_human", {"question": "q", "wait_seconds": -1}, "wait_seconds"),
        (
            "ask_human",
            {"question": "q", "schema": {"type": "object", "properties": {"x": {"type": "object"}}}},
            "form.x",
        ),
        (
            "ask_human",
            {
                "question": "q",
                "schema": {"type": "object", "properties": {"x": {"type": "string", "format": "password"}}},
            },
            "form.x",
        ),
        ("request_approval", {"action": "x", "arguments": []}, "arguments"),
        ("request_approval", {"action": "x", "arguments": {}, "editable": ["y"]}, "editable"),
        ("request_approval", {"action": "x", "arguments": {}, "risk": "none"}, "risk"),
        ("collect_answer", {}, "question_id"),
    ],
)
async def test_what_cannot_be_asked_is_told_with_its_place_and_nobody_is_asked(
    era: str, tool: str, arguments: dict[str, Any], path: str
) -> None:
    async with table(era) as t:
        result = await t.client.call_tool(tool, arguments)
        assert await t.all() == []
    assert result.is_error
    parts = parts_of(result)
    assert parts["status"] == "invalid"
    assert any(each["path"].startswith(path) for each in parts["problems"]), parts


@both_eras
async def test_only_questions_of_these_tools_can_be_collected(era: str) -> None:
    async with table(era, url="memory:") as t:
        stranger = await t.desk.scoped(asker="other").post("Secret?")
        own = await t.desk.post("Asked by the same agent, but not by these tools?", conversation="mcp")
        for question_id in (stranger.id, own.id, "nothing"):
            result = await t.client.call_tool("collect_answer", {"question_id": question_id})
            assert result.is_error
            assert result.structured_content["code"] == "question_not_found"


@both_eras
async def test_an_error_is_told_and_is_not_an_approval(era: str) -> None:
    async with open_desk("memory:") as closed:
        pass
    async with table(era, change=lambda _: closed) as t:
        result = await t.client.call_tool("request_approval", REFUND)
    assert result.is_error
    assert result.structured_content["status"] == "failed"
    assert "approved" not in result.structured_content


async def test_whoever_asks_cannot_sit_at_the_client() -> None:
    async with open_desk("memory:", asker="ana") as desk:
        with pytest.raises(PermissionDenied, match="the asker cannot answer"):
            mcp_server(desk, person=ClientPerson(desk, Responder("ana")))
