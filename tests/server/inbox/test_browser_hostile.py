"""In a real browser no text of an agent runs, asks for anything, or appears outside the agent's box."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page

from handraise import Approval, Choice, Field, Form, MultiChoice, Open, Option
from handraise.model.forms import AnyForm
from handraise.model.identities import Role
from handraise.model.lookalike_names import misleading_tool
from handraise.server import ServerContext
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, complaints
from tests.server.inbox.hostile import MARK, NAMES, TEXTS
from tests.server.inbox.scene import link_to
from tests.tiers import drawn, sized

INSPECT = (Path(__file__).parent / "inspecting.js").read_text()
IN_A_PROMPT = 6
OPTIONS, PARTS_OF_A_FORM = 20, 50
"""As many as a form may have."""
PARTS = sized(gate=1, nightly=4)


def groups(size: int) -> Iterator[tuple[list[str], list[str]]]:
    """The corpus in groups, as texts and as names."""
    for start in range(0, len(TEXTS), size):
        yield TEXTS[start : start + size], NAMES[start : start + size]


def choice(texts: Sequence[str], names: Sequence[str]) -> AnyForm:
    options = zip(names, texts, strict=True)
    return Choice(
        options=tuple(
            Option(id=str(i), label=f"{i} {a}", description=b[:400]) for i, (a, b) in enumerate(options)
        )
    )


def several(texts: Sequence[str], names: Sequence[str]) -> AnyForm:
    options = zip(names, texts, strict=True)
    return MultiChoice(
        options=tuple(
            Option(id=f"{i}{a}"[:190], label=f"{i} {a}", description=b[:400])
            for i, (a, b) in enumerate(options)
        ),
        allow_other=True,
    )


def fields(texts: Sequence[str], names: Sequence[str]) -> AnyForm:
    return Form(
        fields=tuple(
            Field(name=f"{i}{a}"[:200], title=a, description=b[:400], form=Open(), default=b)
            for i, (a, b) in enumerate(zip(names, texts, strict=True))
        )
    )


def approval(texts: Sequence[str], names: Sequence[str]) -> AnyForm:
    arguments: dict[str, Any] = {
        f"{i}{a}"[:200]: b for i, (a, b) in enumerate(zip(names, texts, strict=True))
    }
    return Approval.of(
        next((each for each in names if not misleading_tool(each)), "tool"),
        arguments | {"nested": [{names[-1]: list(texts[:3])}]},
        editable=list(arguments)[:5],
    )


FORMS = [
    *(make(*each) for make in (choice, several) for each in groups(OPTIONS)),
    *(make(*each) for make in (fields, approval) for each in groups(PARTS_OF_A_FORM)),
]
"""Every text as an option's, a field's and an argument's, name and value."""
PROMPTS = list(groups(IN_A_PROMPT))


class Watch:
    """What a window does that a text must not make it do."""

    def __init__(self, window: BrowserContext, tab: Page, address: str) -> None:
        self.away: list[str] = []
        self.complaints = complaints(tab)
        window.on("request", lambda it: None if it.url.startswith(address) else self.away.append(it.url))
        window.on("dialog", lambda it: self.away.append(it.message))
        window.on("page", lambda it: self.away.append(it.url))


@pytest.fixture
def watch(window: BrowserContext, tab: Page, address: str) -> Watch:
    return Watch(window, tab, address)


async def inspect(tab: Page, path: str) -> None:
    """Open a page with everything on it unfolded, and look for whatever is not where it belongs."""
    await tab.goto(path)
    await tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert await tab.evaluate(INSPECT, MARK) == [], path


@pytest.mark.only_proof_of("a real browser runs nothing of what an agent writes; nightly all texts")
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_question_made_of_hostile_texts(
    tab: Page, watch: Watch, ctx: ServerContext, workspace: str, part: int
) -> None:
    assert len(set(TEXTS)) >= 300
    assert len(FORMS) <= len(PROMPTS)
    chosen = drawn(list(enumerate(PROMPTS))[part::PARTS], 5)
    for turn, (place, (texts, names)) in enumerate(chosen):
        desk = ctx.desk.scoped(workspace, asker=names[0][:190])
        question = await desk.post(
            "\n\n".join(texts),
            form=FORMS[place % len(FORMS)],
            context=dict(zip(names, texts, strict=True))
            | {"change": {"before": texts[0], "after": texts[-1]}},
            conversation=names[-1],
        )
        await inspect(tab, f"/questions/{question.id}")
        written: str = await tab.evaluate("document.querySelector('main').textContent.toLowerCase()")
        assert written.count(MARK) >= 2 * len(texts), f"something was swallowed: {texts}"
        if turn % 5 == 0:
            path = await link_to(ctx, question)
            await inspect(tab, path)
            await inspect(tab, f"{path}/frame")
            await desk.withdraw(question.id, reason=texts[0])
            await inspect(tab, f"/questions/{question.id}")
    assert (watch.away, watch.complaints) == ([], [])


@pytest.mark.only_proof_of("lists show hostile texts as texts in a real browser; nightly all texts")
async def test_lists_of_hostile_questions(
    tab: Page, watch: Watch, ctx: ServerContext, workspace: str, person: NewWindow
) -> None:
    phone = person("ann", groups=["ops"], viewport={"width": 320, "height": 640})
    async with phone as small_window, person("boss", role=Role.ADMIN) as window_of_boss:
        small, of_boss = await small_window.new_page(), await window_of_boss.new_page()
        found = complaints(of_boss)
        for texts, names in drawn(list(groups(sized(gate=20, nightly=50))), 1):
            desks = [ctx.desk.scoped(workspace, asker=name[:190]) for name in names]
            asked = [
                await desk.post(
                    text, form=Approval.of("tool" if misleading_tool(name) else name, {}), conversation=name
                )
                for desk, text, name in zip(desks, texts, names, strict=True)
            ]
            await inspect(tab, "/")
            await inspect(small, "/")
            for desk, question, text in zip(desks, asked, texts, strict=True):
                await desk.withdraw(question.id, reason=text)
            await inspect(tab, "/settled")
        await inspect(of_boss, "/insights")
        assert found == []
    assert (watch.away, watch.complaints) == ([], [])


async def test_the_policy_of_a_page_would_stop_a_script_that_got_in(
    tab: Page, watch: Watch, ctx: ServerContext, workspace: str
) -> None:
    question = await ctx.desk.scoped(workspace, asker="bot").post("Well?")
    await tab.goto(f"/questions/{question.id}")
    await tab.evaluate(
        """() => {
            document.querySelector("main").innerHTML = `<img src="data:," onerror="window.zqxj = 1">
                <img src="https://evil.example/zqxj.png"><a href="javascript:window.zqxj = 1">zqxj</a>`;
            const script = document.createElement("script");
            script.textContent = "window.zqxj = 1";
            document.body.append(script);
            document.querySelector("main a").click();
        }"""
    )
    async with asyncio.timeout(20):
        while len([each for each in watch.complaints if "Content Security Policy" in each]) < 4:
            await tab.evaluate("new Promise(requestAnimationFrame)")
    assert await tab.evaluate("window.zqxj") is None
