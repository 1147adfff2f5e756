"""The pages in another language: every sentence of ours is translated, and nothing that anybody else wrote is."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import httpx2
import pytest

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
    Responder,
    Timeline,
)
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.presentation.translation import Locale, find_time_zone, gettext, use_locale
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.marked_language import mark_german, unmarked
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, Sheet
from tests.server.inbox.scene import link_to

GERMAN = {"accept-language": "de-AT,de;q=0.9,en;q=0.5"}
NAMES = frozenset({"ann", "boss", "english", "deutsch", "slack", "arguments", "min"})
"""What is the same in every language, besides what is so in all of these tests."""
CODE = {"script", "style", "code", "pre", "kbd"}
READ = ("title", "aria-label", "placeholder", "alt", "aria-description")
VOID = {"input", "meta", "link", "img", "br", "hr", "rect", "line"}


class Unmarked(HTMLParser):
    """The words on a page that stand in no brackets."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.language: str | None = None
        self.found: list[str] = []
        self._texts: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self.feed(html)
        self.close()
        self.found += unmarked(self._texts, NAMES)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "html":
            self.language = given.get("lang")
        elif tag not in VOID:
            inside = bool(self._open and self._open[-1][1])
            self._open.append((tag, inside or tag in CODE or "lang" in given))
        for name in READ:
            self.found += unmarked([given.get(name) or ""], NAMES)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][1]:  # nobody's sentence, but brackets around it may end in it
            data = "".join(each for each in data if each in "⟦⟧")
        self._texts.append(data)


@pytest.fixture
def workspace() -> str:
    return "lorem"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC) - timedelta(hours=30))


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every translation is the English sentence in brackets."""
    mark_german(monkeypatch)


@pytest.fixture
async def admin(client: httpx2.AsyncClient, issuer: Issuer, workspace: str) -> httpx2.AsyncClient:
    """The browser of an administrator who reads German."""
    token = await issuer.person(workspace, Responder("ann", frozenset({"magna"})), role=Role.ADMIN)
    await issuer.person(workspace, "ann", role=Role.ADMIN)  # another session
    client.cookies.set("handraise", token)
    client.headers.update(GERMAN)
    return client


OPTIONS = (Option(id="a", label="Lorem", description="Ipsum dolor"), Option(id="b", label="Amet"))
FIELDS = Form(
    fields=(
        Field(name="lorem", form=Open(type="email"), title="Lorem ipsum", description="Dolor amet"),
        Field(name="ipsum", form=Open(type="integer", minimum=0, maximum=9), default=3),
        Field(name="dolor", form=Confirm(), required=False),
        Field(name="amet", form=Choice.of("elit", "enim", allow_other=True), required=False),
        Field(name="tempor", form=MultiChoice.of("magna", "minim", at_most=1)),
        Field(name="labore", form=Open(type="date")),
        Field(name="aliqua", form=Open(type="datetime")),
        Field(name="magna", form=Open(type="uri"), required=False),
        Field(name="minim", form=Open(min_length=3, max_length=20)),
    )
)
KINDS: dict[str, AnyForm] = {
    "choice": Choice(options=OPTIONS, allow_other=True),
    "options": MultiChoice.of("lorem", "ipsum", "dolor", at_least=1, at_most=2),
    "text": Open(),
    "confirm": Confirm(),
    "form": FIELDS,
    "approval": Approval.of(
        "lorem.ipsum",
        {"dolor": "amet", "magna": 250, "elit": True, "enim": None, "minim": [], "tempor": ""},
        editable=["magna", "elit"],
        scopes=["once", "session", "always"],
        remember_by=["dolor"],
        valid_for=3_600,
    ),
    "risky approval": Approval.of("lorem.ipsum", {"dolor": "a\u200bb"}, editable=["dolor"], risk="high"),
    "harmless approval": Approval.of("lorem.ipsum", risk="low"),
}
CONTEXT = {"lorem": {"before": "ipsum", "after": "dolor"}, "amet": {"elit": {}, "enim": [1, None, False]}}


async def ask(desk: LocalDesk) -> dict[str, str]:
    """A question of each kind, each with all that a page may show of it; their addresses."""
    found = {
        name: await desk.post(
            "Lorem **ipsum**?" if name != "text" else "Lorem ipsum dolor amet. " * 100,
            form=form,
            context=CONTEXT if name != "choice" else {"lorem": "ipsum dolor " * 300},
            conversation="dolor",
            timeline=Timeline(
                remind=(timedelta(hours=40),),
                escalate=(Escalation(after=timedelta(hours=50), to=("elit", "group:enim")),),
                expire=timedelta(hours=60),
                default="lorem" if name == "text" else None,
            ),
            max_attempts=3,
        )
        for name, form in KINDS.items()
    }
    found["others'"] = await desk.post("Lorem?", recipients=["elit", "group:enim", "ann"][:2])
    found["twice"] = await desk.post("Lorem?", recipients=["group:magna", "ann", "elit"])
    await desk.post("Lorem?", recipients=["group:magna", "ann", "elit"])
    return {name: f"/questions/{each.id}" for name, each in found.items()}


async def settle(desk: LocalDesk, clock: ManualClock) -> dict[str, str]:
    """A question that ended in each way."""
    web, slack = Provenance(channel="web", evidence="session"), Provenance(channel="slack")
    found = {
        name: await desk.post("Lorem?", form=Confirm(), expires_in=600)
        for name in ("answered", "declined", "expired", "withdrawn")
    }
    found["exhausted"] = await desk.post("Lorem?", form=Confirm(), max_attempts=1)
    found["default"] = await desk.post(
        "Lorem?", form=Confirm(), timeline=Timeline(expire=timedelta(minutes=5), default=False)
    )
    with suppress(InvalidAnswer):
        await desk.answer(found["answered"].id, "dolor", by="elit")
    await desk.answer(found["answered"].id, True, by="ann", provenance=web)
    await desk.decline(found["declined"].id, by="elit", reason="tempor", provenance=slack)
    await desk.withdraw(found["withdrawn"].id, reason="labore")
    with suppress(InvalidAnswer):
        await desk.answer(found["exhausted"].id, "dolor", by="elit")
    for name, scope, more in (
        ("approved", "once", {"arguments": {"magna": 200}}),
        ("always", "always", {}),
        ("session", "session", {"reason": "enim"}),
        ("taken back", "once", {}),
        ("consumed", "once", {}),
        ("done", "once", {}),
        ("failed", "once", {}),
        ("denied", None, {"reason": "minim"}),
    ):
        question = await desk.post("Lorem?", form=KINDS["approval"], conversation="dolor")
        if question.outcome is None:  # a grant has not answered it yet
            value: dict[str, Any] = {"decision": "approve", "scope": scope} if scope else {"decision": "deny"}
            await desk.answer(question.id, value | more, by="ann", provenance=web)
        found[name] = question
    await desk.take_back(found["taken back"].id, by="ann", reason="enim")
    for name, is_ok in (("done", True), ("failed", False)):
        await desk.consume_approval(found[name].id)
        await desk.report(
            found[name].id, ok=is_ok, text="tempor", link="https://lorem.example/ipsum", details={"magna": 7}
        )
    clock.advance(timedelta(minutes=15))
    await desk.run_due()
    return {name: f"/questions/{each.id}" for name, each in found.items()}


async def vote(desk: LocalDesk) -> dict[str, str]:
    """Questions that several people must agree on."""

    async def ask_all(form: AnyForm) -> Question:
        return await desk.post("Lorem?", form=form, quorum=2, veto=True, recipients=["ann", "elit", "enim"])

    found = {"new": await ask_all(Confirm()), "stuck": await ask_all(Confirm())}
    await desk.answer(found["stuck"].id, True, by="elit", provenance=Provenance(channel="slack"))
    await desk.decline(found["stuck"].id, by="enim", reason="tempor")
    found["edited"] = await ask_all(Approval.of("lorem.ipsum", {"magna": 250}, editable=["magna"]))
    value = {"decision": "approve", "arguments": {"magna": 200}}
    await desk.answer(found["edited"].id, value, by="elit")
    found["mine"] = await ask_all(Confirm())
    await desk.answer(found["mine"].id, True, by="ann", provenance=Provenance(channel="web"))
    return {name: f"/questions/{each.id}" for name, each in found.items()}


def check(shown: httpx2.Response, name: str) -> None:
    page = Unmarked(shown.text)
    assert page.language == "de", name
    assert page.found == [], (name, page.found)


def sent(sheet: Sheet, **more: str) -> str:
    pairs = [
        (each.name, each.value) for each in sheet.inputs if each.on and each.name and each.name not in more
    ]
    return str(httpx2.QueryParams([*pairs, *more.items()]))


LISTS = (
    "/",
    "/?all=1",
    "/?q=lorem&agent=dolor&conversation=dolor&to=group:magna",
    "/?q=lorem&to=*",
    "/?q=aliqua",
    "/?agent=aliqua",
    "/?page=9",
    "/settled",
    "/settled?all=1&q=lorem",
    "/settled?q=aliqua",
    "/settled?agent=aliqua",
    "/settled?page=9",
    "/conversation?name=dolor",
    "/conversation?name=aliqua",
    "/insights?span=day",
    "/insights?span=week",
    "/insights?span=month",
    "/me",
    "/sign-in",
    "/sign-in/link?token=aliqua",
    "/q/aliqua",
    "/q/aliqua/frame",
    "/questions/aliqua",
)


@pytest.mark.usefixtures("marked")
async def test_every_sentence_of_the_lists_is_translated(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    for path in LISTS[:3] + LISTS[7:9] + LISTS[14:17]:
        check(await admin.get(path), f"{path} of nothing")
    await ask(desk)
    await settle(desk, clock)
    await vote(desk)
    for path in LISTS:
        check(await admin.get(path), path)


@pytest.mark.usefixtures("marked")
async def test_every_sentence_of_a_question_is_translated(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    for name, path in (await ask(desk) | await settle(desk, clock) | await vote(desk)).items():
        check(await admin.get(path), name)


@pytest.mark.usefixtures("marked")
async def test_every_sentence_about_an_answer_that_does_not_fit_is_translated(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    asked = await ask(desk)
    wrong = {
        "choice": {"v": "other"},
        "options": {"v.other": ""},
        "text": {"v": ""},
        "confirm": {"v": "lorem"},
        "form": {"v0": "lorem", "v1": "lorem", "v4": "9", "v5": "lorem", "v6": "lorem", "v8": "l"},
        "approval": {"decision": "approve", "v0": "lorem"},
        "harmless approval": {"decision": "lorem"},
    }
    for name, given in wrong.items():
        sheet = Page((await admin.get(asked[name])).text).sheet()
        shown = await admin.post(asked[name], content=sent(sheet, **given), headers=ORIGIN | FORM)
        assert shown.status_code == 422, name
        check(shown, name)
    given = {
        "v0": "lorem@ipsum.com",
        "v1": "12",
        "v5": "2026-11-11",
        "v6": "2026-11-11T11:11",
        "v8": "l",
        "v4": "0",
    }
    sheet = Page((await admin.get(asked["form"])).text).sheet()
    counted = await admin.post(asked["form"], content=sent(sheet, **given), headers=ORIGIN | FORM)
    assert counted.status_code == 422
    check(counted, "counted")
    check(await admin.get(asked["form"]), "attempted")


@pytest.mark.usefixtures("marked")
async def test_every_sentence_of_other_pages_is_translated(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    asked = await ask(desk)
    approval = Page((await admin.get(asked["approval"])).text).sheet()
    changed = await admin.post(
        asked["approval"], content=sent(approval, decision="approve", v0="200"), headers=ORIGIN | FORM
    )
    assert "data-confirm" in changed.text
    check(changed, "approve with changes")
    confirm = Page((await admin.get(asked["confirm"])).text).sheet()
    paths = {
        name: await link_to(ctx, await desk.get(asked[name].rpartition("/")[2]))
        for name in ("choice", "approval", "risky approval", "confirm")
    }
    await desk.withdraw(asked["confirm"].rpartition("/")[2])
    late = await admin.post(asked["confirm"], content=sent(confirm, v="yes"), headers=ORIGIN | FORM)
    assert late.status_code == 409
    check(late, "too late")
    for name, path in paths.items():
        for frame in ("", "/frame"):
            check(await admin.get(path + frame), f"{name} behind a link{frame}")
    link = await issue_link(ctx, workspace, person="ann", purpose="invitation", vouched_by=None)
    assert link is not None
    check(await admin.get(link.url), "an invitation")
    check(await admin.get("/aliqua", headers={"accept": "text/html"}), "no such page")
    check(await admin.post("/me/sessions/aliqua/end", headers=ORIGIN), "no such session")
    foreign = await admin.post("/sign-out", headers={"origin": "https://aliqua.example"})
    assert foreign.status_code == 403
    check(foreign, "from a page of others")
    described = (await admin.get("/manifest.webmanifest")).json()
    assert (described["lang"], unmarked([described["description"]])) == ("de", [])


async def test_the_pages_say_what_the_catalogue_says(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    asked = await ask(desk)
    with use_locale(Locale("de")):
        said = {
            "/": gettext("Waiting for you"),
            "/settled": gettext("Nothing is settled yet"),
            "/me": gettext("As whom you answer"),
            "/sign-in": gettext("Open the sign-in link that was sent to you. It works once, for you alone."),
            asked["approval"]: gettext("Approve"),
            asked["text"]: gettext("Send the answer"),
        }
    for path, sentence in said.items():
        assert sentence in Page((await admin.get(path)).text).words, path


async def test_times_are_on_the_clock_of_the_browser(
    admin: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker="dolor")
    question = await desk.post("Lorem?", form=Confirm())
    await desk.answer(question.id, True, by="ann")
    outcome = (await desk.get(question.id)).outcome
    assert outcome is not None
    local = outcome.at.astimezone(find_time_zone("Asia/Kolkata"))
    admin.cookies.set("time_zone", "Asia/Kolkata")
    settled = await admin.get("/settled")
    assert f">{local:%H:%M}</time>" in settled.text
    assert f", {local:%H:%M} IST" in settled.text
    assert 'data-time-zone="Asia/Kolkata"' in settled.text
