"""The story of a shop's agent, the same in several frameworks: `app_*.py` has the agent, this has the people."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

from handraise import Choice, Desk, Question, open_desk
from handraise.model.provenance import Provenance
from tests.integrations.processes import ROOT, asked, started


async def killed_while_three_things_wait(app: str, address: str, folder: Path) -> None:
    """Killed, answered in reverse order meanwhile, and gone on with in another process, which asks once more."""
    log, key = folder / "log", f"shop {folder.name}"
    async with open_desk(address) as desk:
        async with started(ROOT / app, address, key, str(log)) as first:
            question, first_refund, second_refund = await asked(desk, key, number=3)
            await first.kill()
        assert isinstance(question.form, Choice)
        await desk.answer(second_refund.id, {"decision": "deny", "reason": "paid in cash"}, by="ana")
        await desk.answer(first_refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        await desk.answer(question.id, "broken", by="ben")
        async with started(ROOT / app, address, key, str(log)) as second:
            [last] = await asked(desk, key)
            assert last.prompt == "Anything else?"
            await desk.answer(last.id, "No.", by="ana")
            why, refunded, denied, more = await second.rest()
        assert '"text":"broken"' in why
        assert refunded == "refunded 25 for A-17"
        assert denied == "Not approved, and not executed: denied by ana: paid in cash"
        assert '"text":"No."' in more
        assert len((await desk.list_settled(conversation=key)).items) == 4
    assert log.read_text().splitlines() == ["looked up Ana", "looked up Ben", "refunded 25 for A-17"]


SOON = 20.0


async def ask_back_and_answer(desk: Desk, *, answer: str = "So.") -> Question:
    """A person asks the model back, reads its reply, and answers; the question as it is then."""
    [question] = await asked(desk)
    assert question.replies == "model"
    await desk.ask_back(question.id, "Which customer?", by="ana")
    async with asyncio.timeout(SOON):
        while (await desk.get(question.id)).is_askers_turn:
            await asyncio.sleep(0.01)
    assert [each.text for each in await desk.thread(question.id)] == ["Which customer?", "Customer 12."]
    return await desk.answer(question.id, answer, by="ana")


def reply_to(result: str) -> dict[str, Any] | None:
    """What a model sends to `reply_to_person` after this result; None if the result does not ask for it."""
    try:
        told = json.loads(result)
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("status") != "asked_back":
        return None
    assert "reply_to_person" in told["reason"]
    [message] = told["messages"]
    assert (message["by"], message["text"]) == ("ana", "Which customer?")
    return {"question_id": told["question_id"], "message": message["number"], "text": "Customer 12."}


CHANGED = "Why, of A-17 or of B-2?"
SENT_BACK = "Say which order."
TOLD = "Not approved, and not executed: sent back by ana: Say which order. Change it as they say, and call the tool again."
"""What a model reads about an action that was sent back."""


async def send_back_and_answer(desk: Desk, *, answer: str = "So.") -> None:
    """A person sends the model's question back, and answers the changed one, which replaces it."""
    [first] = await asked(desk)
    await desk.send_back(first.id, by="ana", reason=SENT_BACK)
    [second] = await asked(desk)
    assert (second.replaces, second.prompt) == (first.id, CHANGED)
    await desk.answer(second.id, answer, by="ana")
    assert (await desk.get(first.id)).replaced_by == second.id


def changed(result: str) -> dict[str, Any] | None:
    """What a model sends to `ask_human` after this result; None if its question was not sent back."""
    try:
        told = json.loads(result)
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("status") != "returned":
        return None
    assert (told["by"], told["reason"]) == ("ana", SENT_BACK)
    assert "replaces set to this question_id" in told["note"]
    return {"question": CHANGED, "replaces": told["question_id"]}


async def ask_back_to_program(desk: Desk, question: Question) -> None:
    """A person asks back, and the program replies beside its run or workflow, from the record alone."""
    assert question.replies == "program"

    async def program() -> None:
        async with aclosing(desk.messages(question.id)) as messages:
            async for message in messages:
                await desk.reply(question.id, f"{message.text} Customer 12.", to=message.number)
                return

    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        group.create_task(program())
        await desk.ask_back(question.id, "Which customer?", by="ana")
    assert (await desk.thread(question.id))[1].text == "Which customer? Customer 12."


SEEN = Provenance(seen=2)
"""What a person has seen who asked back and read the reply."""
