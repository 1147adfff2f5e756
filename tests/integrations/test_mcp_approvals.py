"""Approvals over MCP: given out once, as the person left them, and of high risk not on the word of a client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handraise import Approval
from handraise.model.provenance import Provenance
from tests.integrations.app_mcp_clients import LEGACY, MODERN, SOON, AtClient, accept, table
from tests.integrations.cells import shows

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])

REFUND = {
    "action": "refund",
    "arguments": {"order": "A-17", "amount": 40},
    "why": "The parcel was lost.",
    "editable": ["amount"],
}


@both_eras
@shows("mcp", "approve")
async def test_an_approved_action_is_given_out_once(era: str) -> None:
    async with table(era, user=AtClient([accept(decision="approve", **{"arguments.amount": 40})])) as t:
        result = await t.call("request_approval", **REFUND)
        again = await t.call("collect_answer", question_id=result["question_id"])
    assert result["approved"] is True
    assert result["action"] == {"tool": "refund", "arguments": {"order": "A-17", "amount": 40}}
    assert (result["edited"], result["evidence"]) == (False, "client-asserted")
    assert again["approved"] is False
    assert "action" not in again
    assert "at most once" in again["reason"]
    assert "approve" not in {again.get("value"), again.get("text")}


@both_eras
@shows("mcp", "edit")
async def test_an_action_comes_back_as_the_person_changed_it(era: str) -> None:
    user = AtClient([accept(decision="approve", reason="", **{"arguments.amount": 25})])
    async with table(era, user=user) as t:
        result = await t.call("request_approval", **REFUND)
    assert (result["approved"], result["edited"]) == (True, True)
    assert result["action"]["arguments"] == {"order": "A-17", "amount": 25}
    [form] = user.shown
    assert form.message == (
        'agent asks for your approval. What will be executed:\n> refund\n> amount: 40\n> order: "A-17"\n'
        "Risk: medium\nWhy, as the agent says:\n> The parcel was lost."
    )
    assert form.requested_schema["properties"]["arguments.amount"]["default"] == 40


@both_eras
@shows("mcp", "approve")
async def test_a_denied_action_is_not_given_out(era: str) -> None:
    user = AtClient([accept(decision="deny", reason="Too much.", **{"arguments.amount": 40})])
    async with table(era, user=user) as t:
        result = await t.call("request_approval", **REFUND)
    assert (result["status"], result["approved"], result["reason"]) == ("answered", False, "Too much.")
    assert "action" not in result


@both_eras
async def test_an_edit_that_nobody_allowed_is_not_taken(era: str) -> None:
    fill = accept(decision="approve", **{"arguments.order": "B-1", "arguments.amount": 40})
    async with table(era, user=AtClient([fill])) as t:
        result = await t.call("request_approval", **REFUND)
    assert result["action"]["arguments"] == {"order": "A-17", "amount": 40}


@both_eras
@pytest.mark.parametrize(
    ("said", "options"),
    [("high", {}), ("low", {"least_risk": "high"})],
    ids=["by the model", "by the server"],
)
async def test_an_action_of_high_risk_is_not_shown_at_the_client_and_says_where_it_is_decided(
    era: str, said: str, options: dict[str, Any]
) -> None:
    user = AtClient([accept(decision="approve")])
    async with table(era, user=user, **{"wait": 0.05, **options}) as t:
        result = await t.call("request_approval", **REFUND, risk=said)
        assert (result["status"], result["approved"], user.shown) == ("still_pending", False, [])
        assert "in the inbox or in the terminal" in result["note"]
        await t.desk.answer(
            result["question_id"], "approve", by="bo", provenance=Provenance(channel="terminal")
        )
        decided = await t.call("collect_answer", question_id=result["question_id"])
    assert decided["approved"] is True


@both_eras
async def test_a_model_cannot_talk_the_risk_down(era: str) -> None:
    async with table(era) as t:
        left = await t.call("request_approval", **REFUND, risk="low", wait_seconds=0)
        question = await t.desk.get(left["question_id"])
    assert isinstance(question.form, Approval)
    assert question.form.risk == "medium"


@both_eras
@shows("mcp", "asks back")
async def test_a_person_asks_back_and_the_reply_continues_the_same_call(era: str) -> None:
    async with table(era) as t:
        calling = asyncio.create_task(t.call("request_approval", **REFUND))
        [question] = await t.asked()
        await t.desk.ask_back(question.id, "Which parcel?", by="bo")
        result = await calling
        assert (result["status"], result["approved"]) == ("asked_back", False)
        assert result["messages"] == [{"number": 1, "by": "bo", "text": "Which parcel?"}]
        assert "reply_to_person" in result["note"]
        assert (await t.call("request_approval", **REFUND)) == result
        assert (await t.call("collect_answer", question_id=question.id)) == result
        reply = {"question_id": question.id, "message": 1, "text": "The lost one."}
        calling = asyncio.create_task(t.call("reply_to_person", **reply))
        async with asyncio.timeout(SOON):
            while (await t.desk.get(question.id)).is_askers_turn:
                await asyncio.sleep(0.01)
        await t.desk.answer(question.id, "approve", by="bo", provenance=Provenance(seen=2))
        result = await calling
        again = await t.call("reply_to_person", **reply)
        [only] = await t.all()
    assert (only.id, only.thread, only.replies) == (question.id, 2, "model")
    assert (result["approved"], result["action"]["tool"], again["approved"]) == (True, "refund", False)


@both_eras
@shows("mcp", "sends back")
async def test_an_action_that_was_sent_back_is_changed_and_asked_again(era: str) -> None:
    async with table(era) as t:
        calling = asyncio.create_task(t.call("request_approval", **REFUND))
        [question] = await t.asked()
        await t.desk.send_back(question.id, by="bo", reason="Only 30.")
        result = await calling
        assert (result["status"], result["approved"], result["by"]) == ("returned", False, "bo")
        assert (result["reason"], "action" in result) == ("Only 30.", False)
        assert "replaces set to this question_id" in result["note"]
        smaller = {**REFUND, "arguments": {"order": "A-17", "amount": 30}, "replaces": question.id}
        asked = await t.call("request_approval", **smaller, wait_seconds=0)
        assert (asked["status"], asked["approved"]) == ("still_pending", False)
        assert (await t.desk.get(asked["question_id"])).replaces == question.id
        await t.desk.answer(asked["question_id"], "approve", by="bo")
        done = await t.call("collect_answer", question_id=asked["question_id"])
        old = await t.call("collect_answer", question_id=question.id)
    assert done["action"]["arguments"] == {"order": "A-17", "amount": 30}
    assert (old["status"], old["approved"]) == ("returned", False)


@both_eras
@shows("mcp", "sends back")
async def test_a_person_at_the_client_sends_an_action_back_and_says_why(era: str) -> None:
    fills = [
        accept(decision="send_back", **{"arguments.amount": 40}),
        accept(decision="send_back", reason="Only 30.", **{"arguments.amount": 40}),
    ]
    async with table(era, user=(user := AtClient(fills))) as t:
        result = await t.call("request_approval", **REFUND)
    assert (result["status"], result["approved"], result["reason"]) == ("returned", False, "Only 30.")
    assert (result["by"], result["evidence"]) == ("ana", "client-asserted")
    assert "say what to change" in user.shown[1].message


@both_eras
async def test_a_model_replaces_only_its_own_questions(era: str) -> None:
    async with table(era) as t:
        other = await t.desk.post("By a program?")
        asked = await t.call("ask_human", question="Why?", wait_seconds=0)
        for wrong in (other.id, asked["question_id"], "nope"):
            result = await t.call("request_approval", **REFUND, replaces=wrong, wait_seconds=0)
            assert (result["status"], result["problems"][0]["path"]) == ("invalid", "replaces")
        assert len((await t.desk.list_pending()).items) == 2


async def test_a_model_gives_a_topic_only_if_the_program_says_so() -> None:
    asked = {"question": "Which rate?", "topic": "rates", "wait_seconds": 0}
    async with table(MODERN, topics=True) as t:
        result = await t.call("ask_human", **asked)
        assert (await t.desk.get(result["question_id"])).topic == "rates"
        assert (await t.call("request_approval", **REFUND, topic="rates"))["status"] == "invalid"
    async with table(MODERN) as t:
        result = await t.call("ask_human", **asked)
        assert (result["status"], result["problems"][0]["path"]) == ("invalid", "topic")


@both_eras
async def test_a_client_shows_the_thread_and_its_user_approves_what_they_saw(era: str) -> None:
    user = AtClient([accept(decision="approve", **{"arguments.amount": 40})])
    async with table(era, user=user) as t:
        asked = await t.call("request_approval", **REFUND, wait_seconds=0)
        await t.desk.ask_back(asked["question_id"], "Which \u202eparcel?", by="bo")
        assert (await t.call("collect_answer", question_id=asked["question_id"]))["status"] == "asked_back"
        assert user.shown == []
        reply = {"question_id": asked["question_id"], "message": 1, "text": "The lost one."}
        result = await t.call("reply_to_person", **reply)
    [form] = user.shown
    assert form.message.endswith(
        "bo asks the agent:\n> Which ‹U+202E›parcel?\nagent replies:\n> The lost one."
    )
    assert result["approved"] is True


@both_eras
async def test_an_approval_of_a_form_that_shows_less_than_was_written_does_not_count(era: str) -> None:
    async with table(era, user=(user := AtClient())) as t:

        async def approves_too_late() -> Any:
            [question] = await t.asked()
            await t.desk.note(question.id, "The customer has it already", by="bo")
            return accept(decision="approve", **{"arguments.amount": 40})

        user.fills.append(approves_too_late)
        result = await t.call("request_approval", **REFUND, wait_seconds=0.5)
    assert (result["status"], result["approved"]) == ("still_pending", False)
    assert "does not count" in result["note"]


@both_eras
async def test_what_is_no_reply_is_refused_in_words(era: str) -> None:
    async with table(era) as t:
        result = await t.call("reply_to_person", question_id="nope", message=1, text="Because.")
        assert (result["status"], result["code"]) == ("failed", "question_not_found")
        result = await t.call("reply_to_person", question_id="nope", text="")
    assert result["status"] == "invalid"
    assert {each["path"] for each in result["problems"]} == {"message", "text"}


@both_eras
async def test_a_model_says_more_about_an_action_and_the_person_sees_it(era: str) -> None:
    user = AtClient([accept(decision="approve", **{"arguments.amount": 40})])
    more = {
        "checked": ["The order exists"],
        "reversible": False,
        "affects": "1 customer",
        "links": [{"label": "Order", "url": "https://shop.example/A-17"}],
    }
    async with table(era, user=user) as t:
        result = await t.call("request_approval", **REFUND, **more)
        refused = await t.call("request_approval", **REFUND, links=[{"label": "x", "url": "javascript:x"}])
    assert result["approved"] is True
    assert user.shown[0].message.endswith(
        "What the agent says about it:\n> Why: The parcel was lost.\n> Checked: The order exists\n"
        "> Affects: 1 customer\n> Can be undone: No\n> Order (shop.example): https://shop.example/A-17"
    )
    assert "https://" in str(refused)
    assert refused.get("approved") is not True
