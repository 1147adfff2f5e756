"""What a person saw is part of the record of their answer, as a digest."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from handraise import Approval, Confirm, InvalidAnswer
from handraise.desk.local_desk import LocalDesk
from handraise.desk.sealer import Sealer
from handraise.model.events import Event
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from tests.server.inbox.browser import Sheet, open_page, send


def shown_by(sheet: Sheet) -> str:
    (digest,) = sheet.sent()["shown"]
    assert len(digest) == 64
    return digest


async def last(desk: LocalDesk, question_id: str) -> Event:
    return (await desk.history(question_id))[-1]


async def test_an_answer_in_the_browser_has_the_digest_of_what_was_shown(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Ship it?", form=Confirm(), context={"version": 7})
    sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
    again = (await open_page(ann, f"/questions/{question.id}")).sheet()
    assert shown_by(sheet) == shown_by(again)
    assert (await send(ann, sheet, ("v", "yes"))).status_code == 303
    assert (await last(desk, question.id)).data["shown_digest"] == shown_by(sheet)


@pytest.mark.parametrize(
    "other",
    [{"prompt": "Ship that?"}, {"context": {"version": 8}}, {"arguments": {"to": "staging"}}, {"tool": "x"}],
)
async def test_another_question_is_shown_as_another(
    ann: httpx2.AsyncClient, desk: LocalDesk, other: dict[str, Any]
) -> None:
    same: dict[str, Any] = {
        "prompt": "Ship it?",
        "context": {"version": 7},
        "tool": "deploy",
        "arguments": {"to": "production"},
    }
    digests = []
    for what in (same, {**same, **other}):
        form = Approval.of(what["tool"], what["arguments"])
        question = await desk.post(str(what["prompt"]), form=form, context=what["context"])
        digests.append(shown_by((await open_page(ann, f"/questions/{question.id}")).sheet()))
    assert digests[0] != digests[1]


async def test_a_refusal_has_it_too(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    page = await open_page(ann, f"/questions/{question.id}")
    assert (await send(ann, page.sheet("data-decline"))).status_code == 303
    assert (await last(desk, question.id)).data["shown_digest"] == shown_by(page.sheet())


@pytest.mark.parametrize("forged", ["", "0" * 64, "x"])
async def test_what_the_server_would_not_show_is_not_recorded(
    ann: httpx2.AsyncClient, desk: LocalDesk, forged: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
    sheet.fill("shown", forged)
    assert (await send(ann, sheet, ("v", "yes"))).status_code == 303
    assert "shown_digest" not in (await last(desk, question.id)).data


async def test_a_channel_of_ones_own_says_what_it_showed_and_it_is_sealed(
    desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    with pytest.raises(InvalidAnswer, match="SHA-256"):
        await desk.answer(question.id, True, by="ann", provenance=Provenance(shown_digest="what I saw"))
    with pytest.raises(InvalidAnswer, match="SHA-256"):
        await desk.decline(question.id, by="ann", provenance=Provenance(shown_digest="F" * 64))
    await desk.answer(question.id, True, by="ann", provenance=Provenance(shown_digest="f" * 64))
    assert (await last(desk, question.id)).data["shown_digest"] == "f" * 64
    assert await Sealer(ctx.store, ctx.ledger).seal(workspace) == 1
    assert json.dumps((await last(desk, question.id)).data)
