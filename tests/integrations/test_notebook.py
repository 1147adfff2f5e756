"""Notebooks: a question is shown with widgets in a real kernel, and pressed there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.app_kernel import Notebook, kernel
from tests.integrations.processes import ROOT

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)> **b** $\\href{javascript:alert(1)}{x}$ \u202e\u200b"
EMPTY = "\u200b"
"""The placeholder of a widget without one."""
BEGIN = """
import handraise
from handraise import Approval, Confirm, Form, Field, Open, Choice, MultiChoice
from handraise.integrations.notebook import enable, show
desk = await handraise.open_desk("sqlite:///questions.db", asker="refund-agent")
enable(desk, by="ana")
"""


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    async with kernel(tmp_path) as notebook:
        await notebook.run(BEGIN)
        yield notebook
        await notebook.run("await desk.close()")


async def test_a_question_at_the_end_of_a_cell_is_answered_by_a_button(notebook: Notebook) -> None:
    await notebook.run(
        'question = await desk.post("Which strategy?", choices=["Canary", "Rolling"])\nquestion'
    )
    assert "refund-agent: Choose one of 2" in notebook.shown()
    await notebook.press("Rolling")
    await notebook.shows("Answered by you")
    said = await notebook.run("outcome = await desk.wait(question.id); print(outcome, outcome.channel)")
    assert said == "answered 'Rolling' by ana notebook\n"


@pytest.mark.slow("the same door; the gate has a button")
async def test_every_form_can_be_filled_in(notebook: Notebook) -> None:
    await notebook.run('q = await desk.post("How many?", form=Open(type="integer", minimum=1))\nq')
    text = notebook.find(_model_name="TextModel", value="", placeholder=EMPTY)
    await notebook.enter(text, "none")
    await notebook.press("Answer")
    await notebook.shows("expected a whole number, got a text")
    assert await notebook.run("print((await desk.get(q.id)).attempts)") == "1\n"
    await notebook.enter(text, "3")
    await notebook.press("Answer")
    await notebook.shows("Answered by you")
    assert await notebook.run("print((await desk.wait(q.id)).value)") == "3\n"

    await notebook.run('q = await desk.post("Which?", form=MultiChoice.of("Tests", "Docs", "Notes"))\nq')
    boxes = [model for model, its in notebook.widgets.items() if its.get("_model_name") == "CheckboxModel"]
    for box in boxes[:2]:
        await notebook.enter(box, True)
    await notebook.press("Answer")
    await notebook.shows("Answered by you")
    assert await notebook.run("print((await desk.wait(q.id)).value)") == "['Tests', 'Docs']\n"

    await notebook.run(
        'q = await desk.post("Where?", form=Form(fields=(Field(name="region", form=Choice.of("eu", "us")), '
        'Field(name="now", form=Confirm()), Field(name="note", form=Open(max_length=20), required=False))))\nq'
    )
    picks = [model for model, its in notebook.widgets.items() if its.get("_model_name") == "DropdownModel"]
    for pick, index in zip(picks, (2, 1), strict=True):
        await notebook.send(pick, {"method": "update", "state": {"index": index}, "buffer_paths": []})
    await notebook.press("Answer")
    await notebook.shows("Answered by you")
    assert await notebook.run("print((await desk.wait(q.id)).value)") == "{'region': 'us', 'now': True}\n"


@pytest.mark.slow("the same door; the gate has a button")
async def test_an_action_is_approved_with_a_change_denied_and_declined(notebook: Notebook) -> None:
    ask = 'q = await desk.post("Refund?", form=Approval.of("refund", {"amount": 40}, editable=["amount"]))\nq'
    await notebook.run(ask)
    await notebook.enter(notebook.find(_model_name="TextModel", value="40"), "25")
    await notebook.press("Approve")
    await notebook.shows("Approved with changed arguments by you")
    assert await notebook.run("print((await desk.consume_approval(q.id)).arguments)") == "{'amount': 25}\n"
    for label in ("Deny", "Decline"):
        await notebook.run(ask)
        await notebook.enter(notebook.find(_model_name="TextModel", placeholder="Reason"), "too much")
        await notebook.press(label)
        await notebook.shows("too much")
    assert await notebook.run("print((await desk.get(q.id)).status)") == "declined\n"


async def test_nothing_that_an_agent_wrote_becomes_markup(notebook: Notebook) -> None:
    await notebook.run(f"hostile = {HOSTILE!r}")
    await notebook.run(
        "q = await desk.post(hostile, form=Approval.of('pay', {hostile: hostile}, editable=[hostile]))\nq"
    )
    first = notebook.shown()
    await notebook.run("q = await desk.post(hostile, choices=[hostile, 'b'])\nq")
    second = notebook.shown()
    values = [its.get("value") for its in notebook.widgets.values() if its["_model_name"] == "HTMLModel"]
    for text in (*(str(value) for value in values), first.replace("Approve", "")):
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text
        assert "\u200b" not in text
        for part in text.split("<pre")[:1]:
            assert "$" not in part
    assert "\u2039U+202E\u203a" in first
    for its in notebook.widgets.values():
        assert not its.get("description_allow_html")
    assert "\u2039U+202E\u203a" in second


async def test_an_asker_cannot_answer_and_high_risk_is_not_decided_here(notebook: Notebook) -> None:
    with pytest.raises(AssertionError, match="the asker cannot answer"):
        await notebook.run('enable(desk, by="refund-agent")')
    with pytest.raises(AssertionError, match="the asker cannot answer"):
        await notebook.run('show(question := await desk.post("x"), desk=desk, by="refund-agent")')
    await notebook.run('q = await desk.scoped(asker="ana").post("Mine?", form=Confirm())\nq')
    await notebook.press("Yes")
    await notebook.shows("the asker cannot answer")
    await notebook.run('q = await desk.post("Drop?", form=Approval.of("drop", {}, risk="high"))\nq')
    await notebook.press("Approve")
    await notebook.shows("only a program asserts that it was them")
    assert await notebook.run("print((await desk.get(q.id)).status)") == "pending\n"


@pytest.mark.slow("starts a kernel of its own; the gate has a button")
async def test_an_answer_from_elsewhere_is_shown_and_a_late_press_changes_nothing(notebook: Notebook) -> None:
    await notebook.run('q = await desk.post("Which?", choices=["a", "b"])\nq')
    late = notebook.find(description="a")
    await notebook.run('_ = await desk.answer(q.id, "b", by="bob")')
    await notebook.shows("Answered by bob")
    await notebook.send(late, {"method": "custom", "content": {"event": "click"}})
    await notebook.shows("has already been answered")
    assert await notebook.run("print(await desk.wait(q.id))") == "answered 'b' by bob\n"


@pytest.mark.slow("the same door; the gate has a button")
async def test_what_people_write_is_shown_and_an_approval_covers_it(notebook: Notebook) -> None:
    await notebook.run('q = await desk.post("Refund?", form=Approval.of("refund", {}), replies="program")\nq')
    await notebook.run('_ = await desk.ask_back(q.id, "Why <b>12</b>?", by="bob")')
    await notebook.shows("Why &lt;b&gt;12&lt;/b&gt;?")
    await notebook.press("Approve")
    await notebook.shows("Approved by you")


@pytest.mark.slow("starts a kernel of its own; the gate has a button")
async def test_the_cells_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "use-in-a-notebook.md").read_text(encoding="utf-8")
    opened, asks, waits, closes, _ = re.findall(r"```python no-run\n(.*?)```", page, re.DOTALL)
    async with kernel(tmp_path) as notebook:
        await notebook.run(opened)
        await notebook.run(asks)
        await notebook.press("None")
        said = await notebook.run(waits)
        assert f"It prints `{said.strip()}`." in page
        await notebook.run(closes)
