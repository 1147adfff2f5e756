"""Being away, in the browser: the form, the notice in the inbox, and what a question's page says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise.desk.local_desk import LocalDesk
from handraise.model.away import Away
from handraise.model.errors import InvalidRequest
from handraise.model.identities import Role
from handraise.model.problems import Problem
from handraise.presentation.away_text import away_text, own_away_text
from handraise.presentation.translation import Locale, use_locale
from handraise.server import ServerContext
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, Sheet, open_page, send

FAR = datetime(2200, 1, 1, tzinfo=UTC)
"""After the time of the clock of these tests, too."""
SOON = datetime.now(UTC).date() + timedelta(days=3)


async def form(browser: httpx2.AsyncClient) -> Sheet:
    [found] = [each for each in (await open_page(browser, "/me")).sheets if each.action == "/me/away"]
    return found


async def test_somebody_goes_away_and_comes_back(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    await ctx.directory.put_person(workspace, "bo", name="Bo", email=None, role=Role.MEMBER)
    sheet = await form(ann)
    sheet.fill("last", SOON.isoformat())
    sheet.fill("deputy", "bo")
    done = await send(ann, sheet)
    assert (done.status_code, done.headers["location"]) == (303, "/me#away")
    person = await ctx.directory.find_person(workspace, "ann")
    assert person is not None
    assert person.away is not None
    assert person.away.until == datetime.combine(SOON + timedelta(days=1), datetime.min.time(), UTC)
    page = await open_page(ann, "/")
    assert "You are away until" in page.words
    assert "Bo answers for you." in page.words
    assert "You are away until" in (await open_page(ann, "/me")).words
    [back] = [each for each in page.sheets if each.action == "/me/back"]
    done = await send(ann, back)
    assert (done.status_code, done.headers["location"]) == (303, "/")
    assert "You are away" not in (await open_page(ann, "/")).words


@pytest.mark.parametrize(
    ("first", "last", "deputy"),
    [
        ("", "", ""),
        ("", "2020-01-01", ""),
        ("", "9999-12-31", ""),
        ("", "tomorrow", ""),
        (f"{SOON}", f"{SOON - timedelta(days=2)}", ""),
        ("", f"{SOON}", "ann"),
        ("", f"{SOON}", "nobody"),
        ("", f"{SOON}", "<b>"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str, first: str, last: str, deputy: str
) -> None:
    sheet = await form(ann)
    for name, text in (("first", first), ("last", last), ("deputy", deputy)):
        sheet.fill(name, text)
    refused = await send(ann, sheet)
    assert refused.status_code == 422
    assert "<b>" not in refused.text
    assert await ctx.directory.away(workspace) == {}


@pytest.mark.parametrize("typed", ["Bo Okafor", "bo okafor", "BO", " bo "])
async def test_a_deputy_is_named_as_people_know_them(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str, typed: str
) -> None:
    await ctx.directory.put_person(workspace, "bo", name="Bo Okafor", email=None, role=Role.MEMBER)
    sheet = await form(ann)
    sheet.fill("last", SOON.isoformat())
    sheet.fill("deputy", typed)
    assert (await send(ann, sheet)).status_code == 303
    person = await ctx.directory.find_person(workspace, "ann")
    assert person is not None
    assert person.away is not None
    assert person.away.deputy == "bo"


async def test_everybody_can_be_chosen_as_the_deputy(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for name, shown in (("bo", "Bo Okafor"), ("cy", "Same Name"), ("dan", "same name"), ("eve", "Eve")):
        await ctx.directory.put_person(workspace, name, name=shown, email=None, role=Role.MEMBER)
    await ctx.directory.disable_person(workspace, "eve")
    page = await open_page(ann, "/me")
    offered = page.html.split('<datalist id="away-people">')[1].split("</datalist>")[0]
    assert '<option value="Bo Okafor">' in offered
    assert '<option value="cy">Same Name' in offered
    assert '<option value="dan">same name' in offered
    assert "ann" not in offered
    assert "Eve" not in offered


@pytest.mark.parametrize(
    ("field", "first", "last", "deputy", "why"),
    [
        ("last", "", "", "", "Choose the last day on which you are away."),
        ("last", "", "2020-01-01", "", "This day is in the past."),
        (
            "last",
            f"{SOON}",
            f"{SOON - timedelta(days=2)}",
            "",
            "The last day must not be before the first day.",
        ),
        ("deputy", "", f"{SOON}", "ann", "You cannot stand in for yourself. Choose somebody else."),
        (
            "deputy",
            "",
            f"{SOON}",
            "Bodo",
            "Nobody here is called “Bodo”. Choose somebody from the list.",
        ),
        (
            "deputy",
            "",
            f"{SOON}",
            "gone",
            "“gone” is disabled here, and cannot answer for you. Choose somebody else.",
        ),
        (
            "deputy",
            "",
            f"{SOON}",
            "Same Name",
            "Several people here are called “Same Name”. Choose one from the list.",
        ),
    ],
)
async def test_what_is_wrong_is_said_beside_the_field_and_everything_is_kept(
    ann: httpx2.AsyncClient,
    ctx: ServerContext,
    workspace: str,
    field: str,
    first: str,
    last: str,
    deputy: str,
    why: str,
) -> None:
    for name in ("cy", "dan"):
        await ctx.directory.put_person(workspace, name, name="Same Name", email=None, role=Role.MEMBER)
    await ctx.directory.put_person(workspace, "gone", name="Gone", email=None, role=Role.MEMBER)
    await ctx.directory.disable_person(workspace, "gone")
    sheet = await form(ann)
    for name, text in (("first", first), ("last", last), ("deputy", deputy)):
        sheet.fill(name, text)
    refused = await send(ann, sheet)
    assert refused.status_code == 422
    page = Page(refused.text)
    [again] = [each for each in page.sheets if each.action == "/me/away"]
    assert again.sent() == {"first": [first], "last": [last], "deputy": [deputy]}
    assert why in page.words
    [refers] = [attrs for tag, attrs in page.tags if tag == "input" and attrs.get("id") == f"away-{field}"]
    assert refers["aria-invalid"] == "true"
    assert f'id="{refers["aria-describedby"]}"' in page.html
    assert await ctx.directory.away(workspace) == {}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        ("0001-01-01", f"{SOON}", "Choose a day, or leave it empty."),
        ("9999-12-31", "9999-12-31", "Choose a day, or leave it empty."),
        ("", "9999-12-30", "Choose the last day on which you are away."),
    ],
)
async def test_a_day_that_not_every_time_zone_has_is_refused(
    ann: httpx2.AsyncClient,
    ctx: ServerContext,
    workspace: str,
    zone: str,
    first: str,
    last: str,
    why: str,
) -> None:
    await ctx.directory.set_preferences(workspace, "ann", language=None, time_zone=zone)
    sheet = await form(ann)
    sheet.fill("first", first)
    sheet.fill("last", last)
    refused = await send(ann, sheet)
    assert refused.status_code == 422
    assert why in Page(refused.text).words


@pytest.mark.parametrize(
    ("path", "field", "why"),
    [
        ("body.from", "first", "Choose a day, or leave it empty."),
        ("body.until", "last", "This day is in the past."),
        ("body.deputy", "deputy", "This person cannot answer for you. Choose somebody else."),
    ],
)
async def test_what_is_refused_later_is_said_beside_its_field(
    ann: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, field: str, why: str
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise InvalidRequest([Problem(path, "has changed meanwhile")])

    monkeypatch.setattr("handraise.server.web.inbox.account_page.go_away", refuse)
    sheet = await form(ann)
    sheet.fill("last", SOON.isoformat())
    page = Page((await send(ann, sheet)).text)
    assert why in page.words
    [refers] = [attrs for tag, attrs in page.tags if tag == "input" and attrs.get("id") == f"away-{field}"]
    assert refers["aria-invalid"] == "true"


async def test_the_form_says_what_a_deputy_cannot_answer(ann: httpx2.AsyncClient) -> None:
    words = (await open_page(ann, "/me")).words
    assert "Nobody can stand in for you where the policy requires you, or somebody of ops." in words
    assert "wait until you are back" in words


async def test_only_a_page_of_this_server_can_do_it(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    elsewhere = FORM | {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    refused = await ann.post("/me/away", content=f"last={SOON}", headers=elsewhere)
    assert refused.status_code == 403
    assert (await ann.post("/me/back", content="", headers=elsewhere)).status_code == 403
    assert await ctx.directory.away(workspace) == {}
    assert (await ann.post("/me/away", content=f"last={SOON}", headers=FORM | ORIGIN)).status_code == 303


async def test_the_page_of_a_question_says_who_is_away_and_who_is_asked_too(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    now = datetime.now(UTC)
    for name in ("bo", "cy", "dan"):
        await ctx.directory.put_person(workspace, name, name=name, email=None, role=Role.MEMBER)
    period = Away(starts=now, until=FAR, deputy="ann")
    await ctx.directory.set_away(workspace, "bo", period)
    await ctx.directory.set_away(workspace, "cy", Away(starts=now, until=FAR, deputy="dan"))
    question = await desk.post("Go?", recipients=["bo", "cy", "ann"])
    words = (await open_page(ann, f"/questions/{question.id}")).words
    assert "; ann is asked too." in words
    assert "cy is away until" in words
    assert "; dan is asked too." in words
    await desk.answer(question.id, "yes", by="ann")
    assert "is away" not in (await open_page(ann, f"/questions/{question.id}")).words


def test_a_day_is_said_as_the_last_one_and_a_moment_as_it_is() -> None:
    now = datetime(2026, 11, 18, 9, tzinfo=UTC)
    berlin = Locale(language="en", time_zone="Europe/Berlin")
    whole = Away(starts=now, until=datetime(2026, 12, 1, 23, tzinfo=UTC), deputy="bo")
    with use_locale(berlin):
        assert away_text("ana", whole, "bo", now) == "ana is away until 1 December; bo is asked too."
        assert own_away_text(whole, "bo", now) == "You are away until 1 December. bo answers for you."
        part = Away(starts=now, until=datetime(2027, 1, 1, 11, tzinfo=UTC))
        assert away_text("ana", part, None, now) == "ana is away until 1 January 2027, 12:00 CET."
        later = Away(starts=now + timedelta(days=1), until=whole.until)
        assert own_away_text(later, None, now) == (
            "You will be away from 19 November until 1 December. Nobody answers for you."
        )
