from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from smolagents import (  # type: ignore[import-untyped]
    ChatMessage,
    MessageRole,
    Model,
    Tool,
    ToolCallingAgent,
)
from smolagents.models import (  # type: ignore[import-untyped]
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
)

from handraise import Approval, Desk, open_desk
from handraise.blocking import BlockingDesk
from handraise.blocking import open_desk as open_blocking_desk
from handraise.integrations.smolagents import AskHuman, approved
from handraise.model.thread_messages import ThreadMessage
from tests.integrations.cells import cannot, killed_in_the_gate, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import SEEN, SENT_BACK, SOON, changed, send_back_and_answer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

APP = "examples/integrations/smolagents_agent.py"
Calls = list[tuple[str, dict[str, Any]]]


class Scripted(Model):  # type: ignore[misc]  # smolagents has no types
    """Makes these calls at once, then ends; it keeps what it was told."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls
        self.told: list[str] = []

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        said = [str(message.content) for message in messages if message.role == MessageRole.TOOL_RESPONSE]
        self.told = said
        again = re.search(r'\{"status":"returned".*?\}', said[-1]) if said else None
        args = changed(again[0]) if again else None
        calls = [("final_answer", {"answer": "done"})] if said else self.calls
        if args is not None:
            calls = [("ask_human", args)]
        made = [
            ChatMessageToolCall(
                id=f"call-{place}",
                type="function",
                function=ChatMessageToolCallFunction(name=name, arguments=arguments),
            )
            for place, (name, arguments) in enumerate(calls)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def drop(table: str) -> str:
    """Drop a table.

    Args:
        table: Which.
    """
    if table == "system":
        raise ValueError("not this one")
    return f"dropped {table}"


def play(url: str, calls: Calls, **options: Any) -> asyncio.Task[str]:
    """Run an agent in a thread, as it blocks; what it was told, in one text."""

    def run() -> str:
        with open_blocking_desk(url) as desk:
            tools: list[Tool] = tools_of(desk, **options)
            model = Scripted(calls)
            ToolCallingAgent(tools=tools, model=model, verbosity_level=0).run("Go.")
            return "\n".join(model.told)

    return asyncio.create_task(asyncio.to_thread(run))


def tools_of(desk: BlockingDesk, **options: Any) -> list[Tool]:
    return [AskHuman(desk, key="k", **options), approved(drop, desk, key="k", **options)]


@shows("smolagents", "ask", "approve", "edit", "asks once")
@cannot("smolagents", "survives kill", "it cannot write a run down: what was killed begins again")
@cannot(
    "smolagents", "resumes elsewhere", "it cannot pause or serialise a run: another process begins it again"
)
@killed_in_the_gate
async def test_a_killed_run_begins_again_and_finds_the_answers_it_has_had(
    postgres: str, workspace: str
) -> None:
    async with open_desk(postgres) as desk:
        async with started(ROOT / APP, workspace, HANDRAISE_URL=postgres) as first:
            (why,) = await asked(desk, workspace)
            assert await first.kill() == ["thinking"]
        await desk.answer(why.id, "It was broken.", by="dora")
        async with started(ROOT / APP, workspace, HANDRAISE_URL=postgres) as second:
            (refund,) = await asked(desk, workspace)
            assert isinstance(refund.form, Approval)
            await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
            printed = await second.rest()
        assert printed[:2] == ["thinking", "refunding 25 for A-17"], "it has thought twice, and asked once"
        assert "It was broken." in printed[-1]
        assert len((await desk.list_settled(conversation=workspace)).items) == 2
        async with started(ROOT / APP, workspace, HANDRAISE_URL=postgres) as third:
            printed = await third.rest()
        assert "refunding" not in "".join(printed[:-1]), "an approval is used once"
        assert "It worked, and this was reported: sent" in printed[-1]


@shows("smolagents", "several at once")
async def test_two_calls_of_one_turn_wait_in_threads_and_each_gets_its_own_answer(
    url: str, desk: Desk
) -> None:
    going = play(url, [("ask_human", {"question": "A?"}), ("ask_human", {"question": "B?"})])
    pending = {each.prompt: each.id for each in await asked(desk, number=2)}
    await desk.answer(pending["B?"], "to b", by="ana")
    await desk.answer(pending["A?"], "to a", by="ana")
    told = await going
    assert told.index("to a") < told.index("to b")


def only_customer(message: ThreadMessage) -> str:
    return f"{message.text} Customer 12."


@shows("smolagents", "asks back")
async def test_the_program_replies_to_a_person_who_asks_back_and_the_tool_reports(
    url: str, desk: Desk
) -> None:
    calls: Calls = [("ask_human", {"question": "Why?"}), ("drop", {"table": "logs"})]
    going = play(url, calls, reply_with=only_customer)
    for each in await asked(desk, number=2):
        assert each.replies == "program"
        await desk.ask_back(each.id, "Which customer?", by="ana")
        async with asyncio.timeout(SOON):
            while (await desk.get(each.id)).is_askers_turn:
                await asyncio.sleep(0.01)
        assert (await desk.thread(each.id))[1].text == "Which customer? Customer 12."
        value = "approve" if isinstance(each.form, Approval) else "So."
        await desk.answer(each.id, value, by="ana", provenance=SEEN)
    told = await going
    assert '"text":"So."' in told
    assert "dropped logs" in told
    [report] = [each.report for each in (await desk.list_settled()).items if each.report]
    assert (report.ok, report.text) == (True, "dropped logs")


async def test_a_model_that_is_blocked_cannot_reply(url: str, desk: Desk) -> None:
    told = await play(url, [("ask_human", {"question": "Why?"})], replies="model")
    assert "The model is blocked while it waits" in told
    assert not (await desk.list_pending()).items


async def test_an_error_of_an_approved_tool_is_reported(url: str, desk: Desk) -> None:
    going = play(url, [("drop", {"table": "system"})])
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await going
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (False, "ValueError: not this one")


@shows("smolagents", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(url: str, desk: Desk) -> None:
    going = play(url, [("ask_human", {"question": "Why?"})])
    await send_back_and_answer(desk)
    assert '"text":"So."' in await going


@shows("smolagents", "sends back")
async def test_an_action_that_was_sent_back_is_not_executed(url: str, desk: Desk) -> None:
    going = play(url, [("drop", {"table": "users"})])
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    told = await going
    assert "sent back by ana: Say which order. Change it as they say, and call the tool again." in told
    assert "dropped" not in told


async def test_a_model_replaces_only_what_its_own_run_has_asked(url: str, desk: Desk) -> None:
    elsewhere = await desk.post("Of another run?", key="smolagents:x", conversation="other")
    plain = await desk.post("Of the program?", conversation="k")
    for each in (elsewhere.id, plain.id, "no-such-question"):
        told = await play(url, [("ask_human", {"question": "Why?", "replaces": each})])
        assert '"path":"replaces"' in told
    assert len((await desk.list_pending()).items) == 2


@shows("smolagents", "other endings")
async def test_what_is_not_an_answer_reaches_the_model_as_such(url: str, desk: Desk) -> None:
    calls: Calls = [
        ("ask_human", {"question": "Why?"}),
        ("drop", {"table": "users"}),
        ("drop", {"table": "logs"}),
    ]
    going = play(url, calls)
    for each in await asked(desk, number=3):
        if isinstance(each.form, Approval) and each.form.action.arguments["table"] == "users":
            await desk.answer(each.id, {"decision": "deny", "reason": "no"}, by="ana")
        elif isinstance(each.form, Approval):
            await desk.answer(each.id, "approve", by="ana")
        else:
            await desk.decline(each.id, by="ana", reason="ask Ben")
    told = await going
    assert '"status":"declined"' in told
    assert "dropped users" not in told
    assert "Not executed." in told
    assert "dropped logs" in told


@shows("smolagents", "other endings")
async def test_a_question_that_expires_or_is_still_open_is_no_answer(url: str, desk: Desk) -> None:
    calls: Calls = [("ask_human", {"question": "Why?"}), ("drop", {"table": "users"})]
    told = await play(url, calls, timeout=0)
    assert told.count('"status":"still_pending"') == 2
    assert len((await desk.list_pending()).items) == 2
    told = await play(url, [("drop", {"table": "temp"})], expires_in=timedelta(milliseconds=1))
    assert "dropped" not in told
    assert "Not executed." in told


async def test_what_cannot_be_asked_goes_back_to_the_model(url: str, desk: Desk) -> None:
    told = await play(url, [("ask_human", {"question": "x" * 20_000}), ("drop", {"table": "\x00"})])
    assert told.count('"status":"invalid"') == 2
    assert not (await desk.list_pending()).items


def test_the_page_shows_the_program_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/smolagents.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / APP).read_text(encoding="utf-8")]
