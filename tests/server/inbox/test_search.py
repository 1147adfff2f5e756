"""A search finds all that the page of a question shows, and nothing that it does not."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx2
import pytest

from handraise import Approval, Choice, Field, Form, MultiChoice, Open, Option
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from handraise.model.json_values import Json
from handraise.server import ServerContext
from handraise.server.web.inbox import search
from tests.server.inbox.browser import open_page
from tests.server.inbox.test_queue import asked, next_page
from tests.server.inbox.test_settled import ended

DEPLOY = Choice(
    options=(Option(id="x1", label="Canary", description="Two hosts first"), Option(id="x2", label="All"))
)
PAY = Approval.of(
    "pay",
    {"to": {"name": "Contoso Ltd", "iban": ["DE02", 1742]}, "note": ""},
    editable=[
        Field(name="note", title="Remittance", description="On the statement", form=Open(min_length=0))
    ],
)
ORDER = Form(fields=(Field(name="city", title="Destination", form=Open()), Field(name="size", form=DEPLOY)))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (PAY, "contoso LTD"),
        (PAY, "iban 1742"),
        (PAY, "remittance statement"),
        (DEPLOY, "canary"),
        (DEPLOY, "hosts two"),
        (MultiChoice.of("Fisch", "Straße"), "STRASSE"),
        (ORDER, "destination hosts"),
        (Open(), "incident-77"),
        (Open(), "severity 3"),
    ],
)
async def test_what_waits_is_found_by_context_arguments_and_options(
    ann: httpx2.AsyncClient, desk: LocalDesk, form: AnyForm, words: str
) -> None:
    context = {"cause": [{"ticket": "INCIDENT-77", "severity": 3}]} if isinstance(form, Open) else None
    await desk.post("Something else", context={"ticket": "INCIDENT-76"})
    question = await desk.post("Go on?", form=form, context=context)
    assert asked(await open_page(ann, f"/?{urlencode({'q': words})}")) == [question.id]


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (Open(), "To the Zürich office", "zürich OFFICE"),
        (DEPLOY, "x1", "canary"),
        (Choice.of("A", "B", allow_other=True), {"other": "rather nothing"}, "rather"),
        (ORDER, {"city": "Lisbon", "size": "x2"}, "lisbon"),
        (PAY, {"decision": "deny", "reason": "their account is frozen"}, "frozen account"),
        (PAY, {"decision": "approve", "digest": PAY.digest, "arguments": {"note": "INV-9"}}, "inv-9"),
    ],
)
async def test_what_ended_is_found_by_answer_and_reason(
    ann: httpx2.AsyncClient, desk: LocalDesk, form: AnyForm, value: Json, words: str
) -> None:
    question, other = await desk.post("Go on?", form=form), await desk.post("And this?")
    await desk.answer(question.id, value, by="ann")
    await desk.answer(other.id, "something else", by="ann")
    assert ended(await open_page(ann, f"/settled?{urlencode({'q': words})}")) == [question.id]


async def test_what_ended_is_found_by_the_reason_for_no_answer(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    declined, withdrawn = await desk.post("Go on?"), await desk.post("Go on?")
    await desk.decline(declined.id, by="ann", reason="conflict of interest")
    await desk.withdraw(withdrawn.id, reason="solved by itself")
    assert ended(await open_page(ann, "/settled?q=interest")) == [declined.id]
    assert ended(await open_page(ann, "/settled?q=solved")) == [withdrawn.id]


async def test_what_no_page_shows_is_not_found(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Go on?", form=DEPLOY, state={"thread": "hidden-1"}, key="hidden-2")
    await desk.post("Pay?", form=PAY)
    for words in ("hidden-1", "hidden-2", "x1", "choice", "approval", "once", PAY.digest[:12]):
        assert asked(await open_page(ann, f"/?{urlencode({'q': words})}")) == []
    assert asked(await open_page(ann, "/?q=canary")) == [question.id]


async def test_answers_and_arguments_of_others_are_not_found(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    await desk.post("Pay?", form=PAY, recipients=["bob"])
    question = await desk.post("Where?", recipients=["bob"])
    await desk.answer(question.id, "contoso", by="bob")
    away = ctx.desk.scoped("elsewhere", asker="deploy-bot")
    await away.answer((await away.post("Where?")).id, "contoso", by="ann")
    for path in ("/?q=contoso", "/?q=contoso&all=1", "/settled?q=contoso", "/settled?q=contoso&all=1"):
        page = await open_page(ann, path)
        assert (asked(page), ended(page)) == ([], [])
    assert ended(await open_page(boss, "/settled?q=contoso&all=1")) == [question.id]


async def test_what_is_erased_is_not_found(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    question = await desk.post("Where?", context={"cause": "flood"})
    await desk.answer(question.id, "contoso", by="ann")
    assert ended(await open_page(ann, "/settled?q=flood+contoso")) == [question.id]
    await ctx.ledger.erase(desk.workspace, [question.id], by="boss")
    for words in ("flood", "contoso", "where"):
        assert ended(await open_page(ann, f"/settled?q={words}")) == []


async def test_one_search_reads_a_bounded_amount_of_text_and_goes_on_from_there(
    ann: httpx2.AsyncClient, desk: LocalDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_TEXT", 50_000)
    monkeypatch.setattr(search, "SEARCHED_AT_ONCE", 10)
    monkeypatch.setattr("handraise.server.web.inbox.queue_page.SEARCHED_AT_ONCE", 10)
    for _ in range(30):
        await desk.post("Go on?", context={"log": "x" * 4_000})
    last = await desk.post("Go on?", context="the needle")
    shown = await open_page(ann, "/?q=needle")
    assert "20 questions were looked at" in shown.words
    [more] = next_page(shown)
    assert asked(await open_page(ann, more)) == [last.id]
