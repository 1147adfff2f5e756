"""A client that shows cards: the call returns at once, and the person answers, asks back or sends back on the card."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from handraise import Answered, Approval, Declined, open_desk
from handraise.integrations.mcp.card_calls import TOOLS, URI, card_page
from handraise.integrations.mcp.card_view import LONGEST, view_of
from handraise.model.provenance import Provenance
from handraise.outcomes import Returned
from tests.integrations.app_mcp_clients import LEGACY, MODERN, AtClient, OnCard, accept, table
from tests.integrations.cells import shows

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])

STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"], "context": "It is Friday."}
REFUND = {
    "action": "refund",
    "arguments": {"order": "A-17", "amount": 40},
    "why": "The parcel was lost.",
    "editable": ["amount"],
}


@both_eras
async def test_a_client_that_shows_cards_is_told_of_them_and_any_other_of_nothing(era: str) -> None:
    async with table(era, cards=True) as t:
        tools = {each.name: each for each in (await t.client.list_tools()).tools}
        [listed] = (await t.client.list_resources()).resources
        [page] = (await t.client.read_resource(URI)).contents
    assert tools.keys() - TOOLS == {"ask_human", "request_approval", "collect_answer", "reply_to_person"}
    asking = {"ui": {"resourceUri": URI, "visibility": ["model"]}}
    assert tools["ask_human"].meta == tools["request_approval"].meta == asking
    assert tools["collect_answer"].meta is None
    assert all((tools[name].meta or {})["ui"]["visibility"] == ["app"] for name in TOOLS)
    assert isinstance(page, types.TextResourceContents)
    assert listed.mime_type == page.mime_type == "text/html;profile=mcp-app"
    assert (page.meta or {})["ui"]["csp"] == {
        "connectDomains": [],
        "resourceDomains": [],
        "frameDomains": [],
        "baseUriDomains": [],
    }


@both_eras
@pytest.mark.parametrize("options", [{"cards": False}, {"cards": True, "person": None}])
async def test_without_the_extension_or_a_person_there_are_no_cards(
    era: str, options: dict[str, Any]
) -> None:
    async with table(era, wait=0.05, **options) as t:
        tools = (await t.client.list_tools()).tools
        assert [each.meta for each in tools] == [None] * 4
        result = await t.client.call_tool("ask_human", STRATEGY)
        assert "handraise/card" not in (result.meta or {})
        for name in TOOLS:
            with pytest.raises(MCPError, match="no such tool"):
                await t.client.call_tool(name, {})
        if options.get("person", "") is None:
            with pytest.raises(MCPError):
                await t.client.read_resource(URI)


async def test_cards_can_be_assumed_for_a_client_that_does_not_declare_them() -> None:
    async with table(LEGACY, assume_cards=True) as t:
        card = await t.card("ask_human", **STRATEGY)
        assert (await card("card_state"))["can_answer"]


def test_the_page_loads_nothing_and_writes_no_markup() -> None:
    page = card_page()
    assert not re.search(r"(https?:)?//[a-z]", re.sub(r"^\s*//.*$", "", page, flags=re.MULTILINE))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|<img|<link|fetch\(", page
    )
    assert page.count("<script") == page.count("</script>") == 1


@both_eras
@shows("mcp", "ask")
async def test_a_question_is_answered_on_its_card_and_collected_from_the_record(era: str) -> None:
    user = AtClient([accept(answer="Blue-green")])
    async with table(era, cards=True, user=user) as t:
        asked = await t.client.call_tool("ask_human", STRATEGY)
        told = asked.structured_content
        assert told["status"] == "still_pending"
        assert "card" in told["note"]
        card = OnCard(t, **(asked.meta or {})["handraise/card"])
        assert card.key not in asked.model_dump_json(exclude={"meta"})
        view = await card("card_state")
        assert (view["heading"], view["prompt"], view["context"]) == (
            ["", "agent", " asks"],
            "Which strategy?",
            "It is Friday.",
        )
        [part] = view["parts"]
        assert [each["label"] for each in part["options"]] == ["Blue-green", "Canary"]
        view = await card("card_answer", seen=0, parts={"f0": {"picked": [1]}})
        assert (view["problems"], view["status"], view["outcome"]["text"]) == (
            [],
            "answered",
            "Answered by you",
        )
        result = await t.call("collect_answer", question_id=card.question_id)
        outcome = (await t.desk.get(card.question_id)).outcome
    assert (result["value"], result["by"], result["evidence"]) == ("Canary", "ana", "client-asserted")
    assert isinstance(outcome, Answered)
    assert (outcome.channel, outcome.evidence) == ("mcp", "client-asserted")
    assert user.shown == []  # a card is shown instead of a form


async def test_an_answer_that_does_not_fit_is_told_on_the_card_and_can_be_corrected() -> None:
    schema = {
        "type": "object",
        "properties": {"count": {"type": "integer", "minimum": 1}, "name": {"type": "string"}},
        "required": ["count"],
    }
    async with table(LEGACY, cards=True) as t:
        card = await t.card("ask_human", question="How many?", schema=schema)
        view = await card("card_answer", seen=0, parts={"f0": {"text": ""}})
        assert view["problems"] == [{"part": "f0", "text": "fill this in first"}]
        view = await card("card_answer", seen=0, parts={"f0": {"text": "0"}})
        assert view["problems"] == [{"part": "f0", "text": "must be at least 1, is 0"}]
        assert view["status"] == "pending"
        view = await card("card_answer", seen=0, parts={"f0": {"text": "3"}})
        assert (view["status"], view["problems"]) == ("answered", [])


@both_eras
@shows("mcp", "approve")
async def test_an_action_is_approved_with_edits_on_the_card_and_given_out_once(era: str) -> None:
    async with table(era, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        view = await card("card_state")
        assert view["action"]["tool"] == "refund"
        assert view["action"]["risk"]["level"] == "medium"
        assert view["context"] == "The parcel was lost."
        view = await card("card_answer", seen=0, decision="approve", parts={"f0": {"text": "30"}})
        assert (view["problems"], view["outcome"]["tone"]) == ([], "good")
        result = await t.call("collect_answer", question_id=card.question_id)
        assert (result["approved"], result["edited"]) == (True, True)
        assert result["action"] == {"tool": "refund", "arguments": {"order": "A-17", "amount": 30}}
        assert not (await t.call("collect_answer", question_id=card.question_id))["approved"]


async def test_an_action_is_denied_sent_back_or_a_question_declined_on_the_card() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND, key="1")
        await card("card_answer", seen=0, decision="deny", reason="Too much.", parts={"f0": {"text": "1"}})
        result = await t.call("collect_answer", question_id=card.question_id)
        assert (result["approved"], result["reason"]) == (False, "Too much.")
        card = await t.card("request_approval", **REFUND, key="2")
        assert (await card("card_send_back", seen=0, text=" "))["problems"] == [
            {"part": None, "text": "say what to change"}
        ]
        await card("card_send_back", seen=0, text="Half of it.")
        returned = (await t.desk.get(card.question_id)).outcome
        assert isinstance(returned, Returned)
        assert returned.reason == "Half of it."
        assert (await t.call("collect_answer", question_id=card.question_id))["status"] == "returned"
        card = await t.card("ask_human", **STRATEGY)
        await card("card_decline", seen=0, text="Not mine.")
        declined = (await t.desk.get(card.question_id)).outcome
        assert isinstance(declined, Declined)
        assert (declined.by, declined.reason) == ("ana", "Not mine.")


@both_eras
async def test_a_person_asks_back_the_model_replies_and_the_card_goes_on(era: str) -> None:
    async with table(era, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        view = await card("card_ask_back", seen=0, text="Was it insured?")
        assert (view["problems"], view["waits"]) == ([], "Waiting for the agent's reply.")
        told = await t.call("collect_answer", question_id=card.question_id)
        assert told["status"] == "asked_back"
        replied = await t.call(
            "reply_to_person", question_id=card.question_id, message=1, text="No, it was not."
        )
        assert replied["status"] == "still_pending"  # at once: the card goes on
        stale = await card("card_answer", seen=1, decision="approve")
        assert stale["status"] == "pending"
        assert "moved on" in stale["problems"][0]["text"]
        assert [each["text"] for each in stale["thread"]] == ["Was it insured?", "No, it was not."]
        assert [each["is_agent"] for each in stale["thread"]] == [False, True]
        done = await card("card_answer", seen=2, decision="approve")
        assert (done["status"], done["problems"]) == ("answered", [])


async def test_the_card_says_whether_a_call_of_the_model_waits_for_the_answer() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("ask_human", **STRATEGY)
        assert (await card("card_state"))["tell"] is True
        collecting = asyncio.create_task(t.call("collect_answer", question_id=card.question_id))
        async with asyncio.timeout(10):
            while (await card("card_state"))["tell"]:
                await asyncio.sleep(0.01)
        view = await card("card_answer", seen=0, parts={"f0": {"picked": [0]}})
        assert (view["status"], view["tell"]) == ("answered", False)
        assert (await collecting)["value"] == "Blue-green"


async def test_answered_elsewhere_the_card_shows_it_and_records_nothing() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("ask_human", **STRATEGY)
        await t.desk.answer(card.question_id, "Canary", by="bo")
        view = await card("card_answer", seen=0, parts={"f0": {"picked": [0]}})
        assert (view["outcome"]["text"], view["outcome"]["details"]) == (
            "Answered by bo",
            [{"name": None, "text": "Canary"}],
        )
        assert (await t.call("collect_answer", question_id=card.question_id))["by"] == "bo"


async def test_the_card_speaks_the_language_of_its_client() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        view = await card("card_state", locale="de-AT")
        assert (view["language"], view["texts"]["approve"]) == ("de", "Genehmigen")
        assert (await card("card_state", locale="tlh"))["language"] == "en"


async def test_a_card_of_an_action_shows_nothing_that_colleagues_note_for_each_other() -> None:
    async with table(LEGACY, cards=True) as t:
        card = await t.card("request_approval", **REFUND)
        await t.desk.note(card.question_id, "Between us: he is lying.", by="bo", provenance=Provenance())
        view = await card("card_state")
        assert "lying" not in str(view)
        assert (view["can_answer"], view["why_not"] is None) == (False, False)
        refused = await card("card_answer", seen=1, decision="approve")
        assert refused["status"] == "pending"
        assert refused["problems"]


async def test_what_is_too_long_to_be_read_on_a_card_is_not_decided_there() -> None:
    async with open_desk("memory:") as desk:
        question = await desk.post("May I?", form=Approval.of("mail", {"body": "x" * LONGEST}))
    view = view_of(question, (), viewer="ana", may_answer=True)
    assert (view["can_answer"], view["parts"]) == (False, [])
    assert "too large" in view["why_not"]
