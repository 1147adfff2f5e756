"""Whatever an agent writes stays a text, in the agent's own box, with everything in it to be seen."""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from handraise import (
    Approval,
    Choice,
    Escalation,
    Field,
    Form,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
    Timeline,
)
from handraise.desk.local_desk import LocalDesk
from handraise.model.lookalike_names import misleading_tool
from handraise.server import ServerContext
from handraise.testing import ManualClock
from tests.server.inbox.browser import Page
from tests.server.inbox.hostile import GROUPS, MARK, NAMES, REFUSED, TEXTS
from tests.tiers import drawn

TAGS = {"script", "img", "link", "meta", "dialog", "form", "input", "button", "a"}
OURS = re.compile(r"/static/[a-z0-9_./-]+|/manifest\.webmanifest")
HANDED_BACK = {"value", "name", "href", "data-question", "data-row"}
"""Attributes that no reader sees, in which a text goes to the server and comes back."""


def forms(text: str, name: str, place: int) -> tuple[Any, Any]:
    """A form with options or fields, and an approval, with this text wherever there is room for one."""
    asking = [
        Choice(options=(Option(id="a", label=name, description=text), Option(id="b", label="b"))),
        MultiChoice(options=(Option(id=name, label=name, description=text), Option(id="b", label="b"))),
        Form(fields=(Field(name=name, form=Open(), title=name, description=text, default=text),)),
    ]
    approving = Approval.of(
        "tool" if misleading_tool(name) else name,
        {name: text, "nested": {name: [text]}, "edit": text},
        editable=["edit"],
        scopes=["once", "session"],
        remember_by=[name],
    )
    return asking[place % len(asking)], approving


def check(html: str) -> None:
    """Fail where something of an agent's is more than a text in its box."""
    page = Page(html)
    assert not [each for each in page.ours if MARK in each.lower()]
    for tag, attrs in page.tags:
        assert tag not in ("iframe", "object", "embed", "base", "svg", "math", "video", "audio", "style")
        assert not [
            name for name in attrs if name.startswith("on") or name in ("style", "srcdoc", "autofocus")
        ]
        if tag in ("script", "img", "link"):
            assert OURS.fullmatch(attrs.get("src") or attrs.get("href") or "")
        if tag == "form":
            assert (attrs.get("action") or "/").startswith("/")
            assert "evil" not in (attrs.get("action") or "")
        if tag == "a" and not (attrs.get("href") or "").startswith(("/", "#")):
            assert (attrs.get("href") or "").startswith(("http://", "https://", "mailto:"))
            assert attrs["rel"] == "noopener noreferrer nofollow"
            assert attrs["target"] == "_blank"
        for name, value in attrs.items():
            if name not in HANDED_BACK:
                assert MARK not in (value or "").lower(), (tag, name, value)
    for text in (*page.ours, *page.agents):
        unseen = {
            each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
        }
        assert unseen <= {"\n", "\t", "\u200d"}, text
    assert len([tag for tag, _ in page.tags if tag == "main"]) == 1
    assert len([tag for tag, _ in page.tags if tag == "h1"]) == 1


@pytest.mark.parametrize("settings", [{"rate_limit": "100000/second"}])
@pytest.mark.parametrize("part", range(8))
async def test_a_hostile_text_stays_a_text_wherever_it_stands(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock, part: int
) -> None:
    assert len(set(TEXTS)) >= 300
    for place in drawn(range(part, len(TEXTS), 8), 3):
        text, name = TEXTS[place], NAMES[place]
        desk = ctx.desk.scoped(workspace, asker=name[:190])
        for form in forms(text, name, place):
            question = await desk.post(
                text,
                form=form,
                context={name: text, "list": [text], "change": {"before": text, "after": f"{text}!"}},
                conversation=name,
                recipients=["ann", GROUPS[place], f"{name[:190]} too"],
                timeline=Timeline(
                    escalate=(Escalation(after=timedelta(minutes=1), to=(f"{name[:190]} again",)),),
                    expire=timedelta(hours=1),
                ),
                replies="program",
            )
            clock.advance(timedelta(minutes=2))
            await desk.run_due()
            check((await ann.get(f"/questions/{question.id}")).text)
            check((await ann.get("/")).text)
            await desk.ask_back(question.id, text, by="ann")
            await desk.note(question.id, text, by="ann")
            await desk.reply(question.id, text)
            check((await ann.get(f"/questions/{question.id}")).text)
            await desk.withdraw(question.id, reason=text[:1000])
            check((await ann.get(f"/questions/{question.id}")).text)
        check((await ann.get("/settled", params={"agent": name[:190]})).text)


@pytest.mark.parametrize("text", REFUSED)
async def test_what_cannot_be_kept_as_it_is_does_not_get_in(desk: LocalDesk, text: str) -> None:
    for options in (
        {},
        {"choices": [text, "b"]},
        {"context": {"x": text}},
        {"context": {text: "x"}},
        {"conversation": text},
    ):
        with pytest.raises(InvalidQuestion):
            await desk.post(text if not options else "What now?", **options)
    with pytest.raises(InvalidQuestion):
        Approval.of("run", {"x": text})
    with pytest.raises(InvalidQuestion):
        Approval.of("run", {text: "x"})


async def test_a_link_shows_where_it_leads_and_only_the_address_can_be_clicked(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Look at [https://bank.example](https://evil.example/x?a=1&b=2) now")
    shown = (await ann.get(f"/questions/{question.id}")).text
    assert (
        'https://bank.example (<a href="https://evil.example/x?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">'
        "https://evil.example/x?a=1&amp;b=2</a>) now"
    ) in shown


async def test_a_name_of_several_alphabets_is_marked(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    question = await ctx.desk.scoped(workspace, asker="deplοy-bot").post("Let me")
    for path in ("/", f"/questions/{question.id}"):
        assert "letters of several alphabets" in (await ann.get(path)).text
