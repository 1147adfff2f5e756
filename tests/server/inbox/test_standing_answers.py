from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from unittest.mock import AsyncMock

import httpx2
import pytest

from handraise import Answered
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.questions import Question
from handraise.server import ServerContext
from handraise.server.web.inbox import standing_answers_page
from handraise.testing.clock import ManualClock
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import FORM, open_page, send


async def rate(desk: LocalDesk, *people: str) -> Question:
    return await desk.post(
        "Which rate?", choices=["7", "19"], recipients=people or ["ann"], topic="<b>rate</b>"
    )


async def test_an_answer_is_kept_with_the_form_that_answers(
    ann: httpx2.AsyncClient, desk: LocalDesk, day: str
) -> None:
    question = await rate(desk)
    page = await open_page(ann, f"/questions/{question.id}")
    assert "Until then, agents that ask the same about" in page.words
    assert "&lt;b&gt;rate&lt;/b&gt;" in page.html
    [sheet] = [each for each in page.sheets if any(one.name == "keep_until" for one in each.inputs)]
    sheet.tick("v", "1")
    sheet.fill("keep_until", day)
    assert (await send(ann, sheet)).status_code == 303
    [kept] = await desk.list_standing_answers()
    assert (kept.value, kept.given_by, kept.spot_check) == ("19", "ann", 0.05)
    await desk.revoke_standing_answer(kept.id, by="ann")
    again = await rate(desk)
    page = await open_page(ann, f"/questions/{again.id}")
    [sheet] = [each for each in page.sheets if any(one.name == "keep_until" for one in each.inputs)]
    sheet.tick("v", "0")
    await send(ann, sheet)
    assert len(await desk.list_standing_answers()) == 1, "without a day, nothing is kept"


async def test_a_script_hears_that_an_answer_is_recorded_and_not_kept(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await rate(desk)
    sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
    headers = ORIGIN | FORM | {"accept": "application/json"}
    unfit = await ann.post(sheet.action, content="v=9&keep_until=2020-01-01", headers=headers)
    assert (unfit.status_code, "problem" in unfit.text) == (422, True), "nothing is recorded"
    sent = await ann.post(sheet.action, content="v=1&keep_until=2020-01-01", headers=headers)
    assert sent.status_code == 200
    assert (sent.json()["done"]["answer"], sent.json()["problem"]) == (
        "19",
        "It is not kept for later questions.",
    )
    assert not (await desk.list_standing_answers()).items


async def test_an_answer_is_kept_later_listed_and_revoked(
    ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, day: str
) -> None:
    question = await rate(desk, "ann", "bob")
    await desk.answer(question.id, "19", by="ann")
    path = f"/questions/{question.id}"
    assert "keep_until" not in (await bob.get(path)).text, "it is not bob's answer"
    [sheet] = [
        each
        for each in (await open_page(ann, path)).sheets
        if any(one.name == "keep_until" for one in each.inputs)
    ]
    for wrong in ("", "soon", "9999-12-31", "2020-01-01"):
        sheet.fill("keep_until", wrong)
        refused = await send(ann, sheet)
        assert (refused.status_code, "Not kept:" in refused.text) == (422, True), wrong
    sheet.fill("keep_until", day)
    assert (await send(ann, sheet)).status_code == 303
    own, others, everything = [await open_page(each, "/standing-answers") for each in (ann, bob, boss)]
    for page in (own, everything):
        assert "<b>rate</b> 19 Which rate?" in page.words
    assert "No answer is kept" in others.words
    [revoke] = [each for each in own.sheets if each.action.endswith("/revoke")]
    assert (await send(bob, revoke)).status_code == 404
    assert (await send(ann, revoke)).headers["location"] == "/standing-answers"
    assert "Revoked by you" in (await open_page(ann, "/standing-answers")).words
    assert "The answer is kept for new questions by you" in (await open_page(ann, path)).words


async def test_the_page_says_who_answered_a_spot_check_differently(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await rate(desk, "ann", "bob")
    answered = await desk.answer(question.id, "19", by="ann")
    assert isinstance(answered.outcome, Answered)
    until = answered.outcome.at + timedelta(days=1)
    await desk.keep_answer(question.id, until=until, by="ann", spot_check=1.0)
    check = await rate(desk, "ann", "bob")
    assert "spot check" not in (await open_page(ann, f"/questions/{check.id}")).words, "it would be no check"
    await desk.answer(check.id, "7", by="bob")
    page = await open_page(ann, "/standing-answers")
    assert "Ended, because a spot check was answered differently by bob" in page.words
    assert f'href="/questions/{check.id}"' in page.html
    told = (await open_page(ann, f"/questions/{question.id}")).words
    assert "The standing answer ended, because bob answered the same question differently" in told


async def test_the_newest_are_shown_with_few_statements(
    ann: httpx2.AsyncClient,
    ctx: ServerContext,
    desk: LocalDesk,
    clock: ManualClock,
    day: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing_answers_page, "_AT_ONCE", 2)
    monkeypatch.setattr(standing_answers_page, "_MOST_SHOWN", 3)
    for number in range(5):
        clock.advance(timedelta(minutes=1))
        question = await desk.post(
            f"number {number}", choices=["7", "19"], recipients=["ann"], topic=f"{number}"
        )
        await desk.answer(question.id, "19", by="ann")
        await desk.keep_answer(question.id, until=datetime.fromisoformat(f"{day}T00:00Z"), by="ann")
    read = AsyncMock(wraps=ctx.store.read)
    monkeypatch.setattr(ctx.store, "read", read)
    page = await open_page(ann, "/standing-answers")
    assert re.findall(r"number \d", page.words) == ["number 4", "number 3", "number 2"]
    assert "There are others that this page does not show." in page.words
    assert read.await_count == 1


@pytest.fixture
def day(clock: ManualClock) -> str:
    return (clock.now() + timedelta(days=10)).date().isoformat()


@pytest.fixture
async def bob(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """The browser of a member who is in no group."""
    async with client_from("192.0.2.8") as client:
        client.cookies.set("handraise", await issuer.person(workspace, "bob", role=Role.MEMBER))
        yield client


@pytest.mark.parametrize("path", ["/standing-answers", "/v1/standing-answers"])
async def test_an_agent_sees_no_standing_answer(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, path: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    assert (await client.get(path, headers=agent)).status_code == 403
