"""Every page that people see, in every state worth looking at. A route that is not here fails a test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from urllib.parse import urlencode, urlsplit

from fastapi import FastAPI
from fastapi.routing import APIRoute
from playwright.async_api import Page, expect
from starlette.routing import BaseRoute

from handraise import (
    Approval,
    Choice,
    Confirm,
    Escalation,
    Field,
    Form,
    InvalidAnswer,
    MultiChoice,
    Open,
    Option,
    Question,
    Timeline,
)
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link, issue_question_link
from handraise.testing import ManualClock
from tests.tiers import NIGHTLY

NO_PAGES = {
    "/openapi.json",
    "/insights.csv",
    "/manifest.webmanifest",
    "/service-worker.js",
    "/sign-in/oidc",  # leads to the provider
    "/me/connect/{token}",  # behind a link: test_browser_connect.py
    "/q/{token}/status",  # for a script
    "/questions/{question_id}/files/{digest}",
    "/questions/{question_id}/images/{digest}",
}

BEHIND_A_FIGURE = (
    "/settled?all=1&since=2020-01-01T00:00:00%2B00:00&ended_by=people&took=0-86400&group=ops&tool=deploy&risk=high"
    "&channel=-&late=1&failed=1&hour=9&asked_hour=8"
)
"""With every filter that a link can set."""
BESIDE = 1_100
"""The pixels from which the list and a question are side by side."""
CONTEXT = {
    "service": {"name": "web", "replicas": 3, "public": True, "note": None},
    "hosts": [{"name": "a", "load": 0.5}, {"name": "b", "load": 1}],
    "change": {"before": "one\ntwo\nthree", "after": "one\n2\nthree"},
    "steps": ["build", "test", "a step with a rather long description that goes on over the end of the line"],
}
PROMPT = """**Deploy** release 4.2 *now*?

1. it is built, see `make release` and https://ci.example.com/builds/4711
2. it is [tested](https://ci.example.com/tests)

> The error budget is 71 %.

| region | state |
|---|---|
| eu | ready |
"""
SEVERAL = Form(
    fields=(
        Field(name="who", form=Open(type="email"), title="Who is told", description="One address."),
        Field(name="retries", form=Open(type="integer", minimum=0), default=3),
        Field(name="sure", form=Confirm()),
        Field(name="where", form=Choice.of("eu", "us", allow_other=True), required=False),
        Field(name="parts", form=MultiChoice.of("web", "api", at_most=1)),
        Field(name="from", form=Open(type="date")),
        Field(name="at", form=Open(type="datetime")),
        Field(name="note", form=Open(), required=False),
    )
)
PAYMENT = Approval.of(
    "payments.transfer",
    {"to": "ACME Ltd", "amount": 250, "note": "rent", "urgent": False},
    editable=["amount", "note", "urgent"],
    scopes=["once", "session", "always"],
    remember_by=["to"],
)
REFUND = Approval.of("refund", {"order": "A-7", "amount": 500}, editable=["amount"])
FORMS: dict[str, AnyForm] = {
    "a choice": Choice(
        options=(
            Option(id="a", label="Canary", description="One in ten first"),
            Option(id="b", label="Rolling", description="One after the other"),
        ),
        allow_other=True,
    ),
    "several options": MultiChoice.of("web", "api", "docs", at_least=1, at_most=2),
    "a text": Open(),
    "yes or no": Confirm(),
    "a form": SEVERAL,
    "an approval": PAYMENT,
}


@dataclass(frozen=True, slots=True)
class View:
    """A page in a state in which somebody may find it; `prepare` brings it there."""

    name: str
    route: str
    path: str
    prepare: Callable[[Page], Awaitable[None]] | None = None
    alike: bool = False
    """Whether one goes through it as through another one: it differs in what it says."""

    async def show(self, tab: Page) -> None:
        """Open it."""
        await tab.goto(self.path)
        if self.prepare is not None:
            await self.prepare(tab)


ONE_OF_EACH = {
    "the queue",
    "several together",
    "what comes after an answer",
    "what is set aside",
    "standing answers",
    "results of a search",
    "a question asked again to answer",
    "what is settled",
    "a conversation",
    "an agent",
    "a tool",
    "one's history",
    "insights",
    "the policy",
    "stops",
    "the HTTP API",
    "a form to answer",
    "an approval to answer",
    "a conversation about a refund to answer",
    "answered, settled",
    "oneself",
    "the way in",
    "an invitation",
    "back from the provider",
    "a choice behind a link",
    "a choice in a frame",
}
"""Names of views: one of every type of page."""


def some_of(views: Sequence[View], names: AbstractSet[str]) -> list[View]:
    """All of them nightly; in the gate those with these names."""
    return [view for view in views if NIGHTLY or view.name in names]


def routes_of(app: FastAPI) -> set[str]:
    """The routes of pages that this application has, without those that test_browser_admin.py goes through, and without SCIM."""
    found = set(_paths(app.routes)) - NO_PAGES
    return {path for path in found if not path.startswith(("/admin", "/setup", "/scim/"))}


def _paths(routes: Iterable[BaseRoute]) -> Iterator[str]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _paths(inner.routes)
        elif isinstance(route, APIRoute) and "GET" in (route.methods or ()) and not route.include_in_schema:
            yield route.path


async def views_of_nothing() -> list[View]:
    """The pages of a workspace in which nobody has asked anything yet."""
    return [
        View(f"{path} of nothing", path, path)
        for path in ("/", "/aside", "/settled", "/insights", "/standing-answers")
    ]


async def views_of(ctx: ServerContext, desk: LocalDesk, clock: ManualClock) -> list[View]:
    """The pages of a workspace in which much has happened, as its administrator ann sees them."""
    asked = {
        name: await desk.post(
            PROMPT, form=form, context=CONTEXT, conversation="release 4.2", expires_in=86_400
        )
        for name, form in FORMS.items()
    }
    asked["a vote"] = await _vote(desk, clock)
    asked["a conversation about a refund"] = await _talked_about(desk, clock)
    asked["a conversation without replies"] = await _noted(desk)
    asked["a question asked again"] = await _asked_again(desk)
    asked["one for others"] = await desk.post("Not for ann", recipients=["bob"])
    settled = await _settled(desk, clock)
    return [
        *_lists(),
        *(View(f"{name} to answer", "/questions/{question_id}", _page(it)) for name, it in asked.items()),
        *(
            View(f"{name}, settled", "/questions/{question_id}", _page(it), alike=name != "answered")
            for name, it in settled.items()
        ),
        View("no such question", "/questions/{question_id}", "/questions/none"),
        View("a refused answer", "/questions/{question_id}", _page(asked["a form"]), _refused),
        View("an edited approval", "/questions/{question_id}", _page(asked["an approval"]), _edited),
        View(
            "a conversation that moved on",
            "/questions/{question_id}",
            _page(asked["a conversation about a refund"]),
            _moved,
        ),
        View("several together", "/together", _together(asked)),
        View("nothing together", "/together", "/together", alike=True),
        View("what comes after an answer", "/questions/{question_id}", _after(asked, settled)),
        View("the keys", "/", "/", _keys),
        View("oneself", "/me", "/me"),
        View("the HTTP API", "/docs", "/docs"),
        *await _ways_in(ctx, desk, asked),
    ]


def _lists() -> list[View]:
    return [
        View("the queue", "/", "/", _beside),
        View("the queue of the workspace", "/", "/?all=1", _beside, alike=True),
        View("a queue that a filter leaves empty", "/", "/?agent=nobody"),
        View("a search", "/", "/?q=release", _beside),
        View("a view with filters", "/", "/?view=approvals&risk=medium&sort=newest", _beside, alike=True),
        View("results of a search", "/search", "/search?q=release"),
        View("what is set aside", "/aside", "/aside"),
        View("standing answers", "/standing-answers", "/standing-answers"),
        View("what is settled", "/settled", "/settled"),
        View("what is settled in the workspace", "/settled", "/settled?all=1", alike=True),
        View("a conversation", "/conversation", "/conversation?name=release+4.2"),
        View("an agent", "/agent", "/agent?name=deploy-bot"),
        View("an agent that is not known", "/agent", "/agent?name=none", alike=True),
        View("a tool", "/tool", "/tool?name=payments.transfer"),
        View("one's history", "/person", "/person"),
        View("somebody's history", "/person", "/person?name=bob", alike=True),
        View("the policy", "/policy", "/policy"),
        View("stops", "/stops", "/stops"),
        View("insights", "/insights", "/insights"),
        View("the administration", "/admin", "/admin"),
        View("people", "/admin/people", "/admin/people", alike=True),
        View("a person", "/admin/people/{person_id}", "/admin/people/ann", alike=True),
        View("groups", "/admin/groups", "/admin/groups", alike=True),
        View("a group", "/admin/groups/{name}", "/admin/groups/none", alike=True),
        View("keys of agents", "/admin/keys", "/admin/keys", alike=True),
        View("channels", "/admin/channels", "/admin/channels", alike=True),
        View("addresses", "/admin/addresses", "/admin/addresses", alike=True),
        View("routing", "/admin/routing", "/admin/routing", alike=True),
        View("failed deliveries", "/admin/deliveries", "/admin/deliveries", alike=True),
        View("grants", "/admin/grants", "/admin/grants", alike=True),
        View("limits", "/admin/limits", "/admin/limits", alike=True),
        View("the audit trail", "/admin/audit", "/admin/audit", alike=True),
        View("retention", "/admin/retention", "/admin/retention", alike=True),
        View("a server that is set up", "/setup", "/setup", alike=True),
        View("insights of a day", "/insights", "/insights?span=day", alike=True),
        View("insights with filters", "/insights", "/insights?agent=deploy-bot&risk=medium", alike=True),
        View("settled questions behind a figure", "/settled", BEHIND_A_FIGURE, alike=True),
        View("insights of a month", "/insights", "/insights?span=month", alike=True),
    ]


async def _ways_in(ctx: ServerContext, desk: LocalDesk, asked: dict[str, Question]) -> list[View]:
    link = await issue_link(ctx, desk.workspace, person="ann", purpose="invitation", vouched_by=None)
    assert link is not None
    views = [
        View("the way in", "/sign-in", "/sign-in"),
        View("an invitation", "/sign-in/link", _path(link.url)),
        View("a link that is used up", "/sign-in/link", "/sign-in/link?token=none"),
        View("back from the provider", "/sign-in/oidc/callback", "/sign-in/oidc/callback?code=a&state=b"),
        View("sent back by the provider", "/sign-in/oidc/callback", "/sign-in/oidc/callback"),
        View("a question link that has ended", "/q/{token}", "/q/none"),
        View("a frame that has ended", "/q/{token}/frame", "/q/none/frame"),
    ]
    for name in ("a choice", "an approval", "a form"):
        path, alike = await link_to(ctx, asked[name]), name == "a form"
        views += [
            View(f"{name} behind a link", "/q/{token}", path, alike=alike),
            View(f"{name} in a frame", "/q/{token}/frame", f"{path}/frame", alike=alike),
        ]
    return views


async def link_to(ctx: ServerContext, question: Question) -> str:
    """The path of a link with which ann answers one question."""
    ann = await ctx.directory.find_person(question.workspace, "ann")
    assert ann is not None
    link = await issue_question_link(ctx, question, ann, channel="email", by="boss", lasts=timedelta(hours=1))
    assert link is not None
    return _path(link.url)


async def _vote(desk: LocalDesk, clock: ManualClock) -> Question:
    question = await desk.post(
        "Ship?",
        choices=["yes", "no"],
        quorum=2,
        veto=True,
        recipients=["bob", "cid"],
        timeline=Timeline(
            remind=(timedelta(minutes=5),),
            escalate=(Escalation(after=timedelta(minutes=10), to=("ann",)),),
            expire=timedelta(hours=1),
            default="no",
        ),
    )
    await desk.answer(question.id, "yes", by="bob", provenance=Provenance(channel="cli"))
    for minutes in (6, 14):
        clock.advance(timedelta(minutes=minutes))
        await desk.run_due()
    return question


async def _talked_about(desk: LocalDesk, clock: ManualClock) -> Question:
    """A question whose agent replied after one approval, and is asked again."""
    question = await desk.post(
        "Refund?", form=REFUND, quorum=2, recipients=["ann", "bob", "cid"], replies="model"
    )
    await desk.answer(question.id, "approve", by="cid", provenance=Provenance(channel="slack"))
    await desk.note(
        question.id, "I know them.\nThey pay late.", by="bob", provenance=Provenance(channel="slack")
    )
    await desk.ask_back(question.id, "Which customer?", by="ann", provenance=Provenance(channel="web"))
    clock.advance(timedelta(minutes=2))
    await desk.reply(question.id, "Customer 12. " + "This is why. " * 150)
    return await desk.ask_back(question.id, "And the order?", by="bob")


async def _asked_again(desk: LocalDesk) -> Question:
    """A question that replaces one that was sent back, that bob is on and brings ann in."""
    before = Approval.of("payments.transfer", {"to": "ACME Ltd", "amount": 250, "note": "rent"})
    people = ["ann", "bob"]
    old = await desk.post(PROMPT, form=before, context=CONTEXT, recipients=people, replies="program")
    await desk.ask_back(old.id, "Which account?", by="bob")
    await desk.reply(old.id, "The one of the flat.")
    await desk.send_back(old.id, by="bob", reason="Only 200:\nthe rest was paid.")
    smaller = Approval.of("payments.transfer", {"to": "ACME Ltd", "amount": 200, "to account": "flat"})
    new = await desk.post("Pay the rest?", form=smaller, recipients=["bob"], replaces=old.id)
    await desk.bring_in(new.id, ["ann", "group:ops"], by="bob", reason="You know the flat.")
    aside = await desk.post("Later?", recipients=["ann", "bob"])
    await desk.set_aside(aside.id, by="ann")
    await _kept(desk)
    return await desk.take(new.id, by="bob")


async def _kept(desk: LocalDesk) -> None:
    """Standing answers: one that holds, and one that ended in a spot check."""
    for topic, given in (("vat-rate:DE", "19"), ("vat-rate:FR", "7")):
        asked = partial(
            desk.post, f"Which rate applies to {topic}?", choices=["7", "19"], recipients=["ann"], topic=topic
        )
        question = await asked()
        answered = await desk.answer(question.id, "19", by="ann")
        assert answered.outcome is not None
        until = answered.outcome.at + timedelta(days=90)
        await desk.keep_answer(question.id, until=until, by="ann", spot_check=1.0)
        await desk.answer((await asked()).id, given, by="ann")


async def _noted(desk: LocalDesk) -> Question:
    question = await desk.post("Which name?", form=FORMS["a choice"])
    return await desk.note(question.id, "Ask Cid.", by="bob")


async def _settled(desk: LocalDesk, clock: ManualClock) -> dict[str, Question]:
    choice = FORMS["a choice"]
    found = {
        name: await desk.post(PROMPT, form=choice, context=CONTEXT, expires_in=600)
        for name in ("answered", "declined", "expired", "withdrawn")
    }
    with suppress(InvalidAnswer):
        await desk.answer(found["answered"].id, "none of these", by="bob")
    await desk.answer(found["answered"].id, "b", by="ann", provenance=Provenance(channel="web"))
    await desk.decline(found["declined"].id, by="bob", reason="ask Cid")
    await desk.withdraw(found["withdrawn"].id, reason="not needed any more")
    found["approved"] = await desk.post("Pay?", form=PAYMENT, conversation="flat")
    decision = {"decision": "approve", "arguments": {"amount": 200}, "reason": "less is enough"}
    await desk.answer(found["approved"].id, decision, by="ann", provenance=Provenance(channel="web"))
    for name, ok, text in (
        ("done", True, "250 EUR are on their way"),
        ("failed", False, "The account is closed."),
    ):
        found[name] = await desk.post("Pay the rent?", form=PAYMENT, conversation="flat")
        await desk.answer(found[name].id, "approve", by="ann", provenance=Provenance(channel="web"))
        await desk.consume_approval(found[name].id)
        await desk.report(
            found[name].id,
            ok=ok,
            text=text,
            link="https://bank.example/transfers/4711?from=handraise",
            details={"transfer": 4711, "log": "opened\nsigned\nsent", "tries": [1, 2]},
        )
    clock.advance(timedelta(minutes=15))
    await desk.run_due()
    return found


def _together(asked: dict[str, Question]) -> str:
    names = ("yes or no", "an approval", "a form", "a conversation about a refund")
    return "/together?" + urlencode([("id", asked[name].id) for name in names])


def _after(asked: dict[str, Question], settled: dict[str, Question]) -> str:
    return f"{_page(asked['yes or no'])}?{urlencode({'from': '/', 'done': settled['approved'].id})}"


def _page(question: Question) -> str:
    return f"/questions/{question.id}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


async def _refused(tab: Page) -> None:
    # As a browser without its own checks would send it.
    await tab.locator("form[data-answer]").evaluate("(form) => { form.noValidate = true; }")
    await tab.get_by_label("Who is told").fill("nobody")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("alert")).to_be_visible()


async def _edited(tab: Page) -> None:
    await tab.get_by_text("Change something before you approve").click()
    await tab.get_by_label("amount").fill("200")
    await tab.get_by_role("button", name="Approve", exact=True).click()
    await expect(tab.get_by_role("heading", name="Approve with your changes?")).to_be_visible()


async def _moved(tab: Page) -> None:
    # As if somebody had written something after the page was opened.
    await tab.locator("[name=seen]").evaluate_all("(all) => all.forEach((each) => { each.value = '1'; })")
    await tab.get_by_role("button", name="Approve", exact=True).click()
    await expect(tab.get_by_role("alert")).to_be_visible()


async def _beside(tab: Page) -> None:
    """Wait for the question that is shown beside the list, if the window is wide."""
    if tab.viewport_size is not None and tab.viewport_size["width"] >= BESIDE:
        await expect(tab.locator("[data-pane] [data-question]")).to_be_visible()


async def _keys(tab: Page) -> None:
    await _beside(tab)
    await tab.keyboard.press("?")
    await expect(tab.get_by_role("dialog")).to_be_visible()
