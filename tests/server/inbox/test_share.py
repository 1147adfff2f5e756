"""Sharing the work on the pages without scripts: take, bring in, hand over, snooze, not for me, put back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise import Approval, Question, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.outcomes import Declined
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, open_page, send
from tests.server.inbox.scene import link_to

REFUND = Approval.of("refund", {"amount": 300})
ALL = ("take", "release", "bring in", "hand over", "not for me", "snooze", "put back")


@pytest.fixture
async def bob(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_from("192.0.2.3") as client:
        client.cookies.set("handraise", await issuer.person(workspace, "bob", role=Role.MEMBER))
        yield client


@pytest.fixture
async def shared(desk: LocalDesk) -> Question:
    return await desk.post("Refund?", form=REFUND, recipients=["ann", "bob"])


def here(question: Question) -> str:
    return f"/questions/{question.id}"


def forms(page: Page) -> set[str]:
    return {attrs["data-share"] or "" for tag, attrs in page.tags if tag == "form" and "data-share" in attrs}


async def press(client: httpx2.AsyncClient, question: Question, do: str, **fields: str) -> httpx2.Response:
    """Send what a form on the page sends."""
    return await client.post(here(question), data={"do": do, **fields}, headers=ORIGIN)


async def inbox(client: httpx2.AsyncClient, path: str = "/") -> str:
    return (await open_page(client, path)).html


class TestTaking:
    async def test_others_see_who_is_on_it_and_can_still_decide(
        self, ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk, shared: Question
    ) -> None:
        [sheet] = [
            each
            for each in (await open_page(ann, here(shared))).sheets
            if any(one.value == "take" for one in each.inputs)
        ]
        sent = await send(ann, sheet)
        assert (sent.status_code, sent.headers["location"]) == (303, here(shared))
        until = (await desk.get(shared.id)).taken_until
        assert until is not None
        assert (await desk.history(shared.id))[-1].channel == "web"
        theirs = await open_page(bob, here(shared))
        assert f"ann is on this until {until:%H:%M}" in theirs.words
        assert "take" not in forms(theirs)
        assert f"ann is on this until {until:%H:%M}" in (await open_page(bob, "/")).words
        assert "You are on this until" in (await open_page(ann, "/")).words
        refused = await press(bob, shared, "take")
        assert refused.status_code == 409
        assert "ann is on this" in Page(refused.text).words
        assert (await press(ann, shared, "release")).status_code == 303
        assert "is on this" not in (await open_page(bob, here(shared))).words


class TestBringingIn:
    async def test_somebody_is_brought_in_with_a_reason(
        self,
        ann: httpx2.AsyncClient,
        bob: httpx2.AsyncClient,
        desk: LocalDesk,
        issuer: Issuer,
        workspace: str,
    ) -> None:
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        await issuer.person(workspace, Responder("cid", frozenset({"sales"})), role=Role.MEMBER)
        page = await open_page(ann, here(question))
        offered = {attrs.get("value") for tag, attrs in page.tags if tag == "option"}
        assert {"bob", "cid", "group:sales", "group:ops"} <= offered
        assert not {"ann", "deploy-bot"} & offered
        sheet = next(each for each in page.sheets if ("do", "bring in") in each.buttons)
        sheet.fill("people", " Bob, group:sales ")
        sheet.fill("reason", "you know <them>")
        assert (await send(ann, sheet, ("do", "bring in"))).status_code == 303
        assert (await desk.get(question.id)).added == ("bob", "group:sales")
        assert question.id in await inbox(bob)
        assert question.id in await inbox(ann)
        theirs = await open_page(bob, here(question))
        assert "ann brought you in" in theirs.words
        assert "you know <them>" in theirs.agents_text
        assert "brought you in" not in (await open_page(ann, here(question))).words

    async def test_it_is_handed_over_and_can_be_put_back(
        self, ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        assert (await press(ann, question, "hand over", people="bob")).status_code == 303
        assert question.id not in await inbox(ann)
        assert question.id in await inbox(bob)
        assert "ann handed this over to you" in (await open_page(bob, here(question))).words
        mine = await open_page(ann, here(question))
        assert mine.sheet().buttons, "they may still answer"

    async def test_who_handed_it_over_is_called_by_name(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
    ) -> None:
        await ctx.directory.put_person(workspace, "maria", name="Maria Sol", email=None, role=Role.MEMBER)
        question = await desk.post("Refund?", form=REFUND, recipients=["maria"])
        await desk.hand_over(question.id, ["ann"], by="maria")
        await desk.take(question.id, by="maria")
        words = (await open_page(ann, here(question))).words
        assert "Maria Sol handed this over to you" in words
        assert "Maria Sol is on this until" in words

    async def test_what_was_handed_over_is_called_so_everywhere(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
    ) -> None:
        await ctx.directory.put_person(workspace, "ben", name="Ben Okafor", email=None, role=Role.MEMBER)
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        assert (await press(ann, question, "hand over", people="ben, group:ops")).status_code == 303
        said = "Handed over to Ben Okafor and the group ops"
        assert said in (await open_page(ann, f"/?done={question.id}")).words
        for path in ("/aside", "/?view=snoozed"):
            page = await open_page(ann, path)
            assert said in page.words, path
            assert "for good" not in page.words
        mine = (await open_page(ann, here(question))).words
        assert "You handed this over to Ben Okafor and the group ops: it is not in your inbox." in mine
        views = (await open_page(ann, "/")).words
        assert "Set aside 1" in views
        assert "Snoozed" not in views
        await press(ann, question, "put back")
        await press(ann, question, "not for me")
        for path in ("/aside", f"/?done={question.id}", here(question)):
            page = await open_page(ann, path)
            assert "Handed over to" not in page.words.split("What happened so far")[0], path

    @pytest.mark.parametrize("typed", ["Bob", "BEN OKAFOR", "Ben", "group:OPS", "Ops", "bob, Ben Okafor"])
    @pytest.mark.parametrize("settings", [{"check_recipients": True}])
    async def test_a_name_counts_without_its_case(
        self,
        ann: httpx2.AsyncClient,
        desk: LocalDesk,
        ctx: ServerContext,
        issuer: Issuer,
        workspace: str,
        typed: str,
    ) -> None:
        await issuer.person(workspace, Responder("bob", frozenset({"ops"})), role=Role.MEMBER)
        await ctx.directory.put_person(workspace, "ben", name="Ben Okafor", email=None, role=Role.MEMBER)
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        assert (await press(ann, question, "hand over", people=typed)).status_code == 303
        meant = {"Bob": ("bob",), "group:OPS": ("group:ops",), "Ops": ("group:ops",)}
        added = meant.get(typed, ("bob", "ben") if "," in typed else ("ben",))
        assert (await desk.get(question.id)).added == added

    @pytest.mark.parametrize("settings", [{"check_recipients": True}])
    async def test_a_refusal_ends_with_one_mark(
        self, ann: httpx2.AsyncClient, issuer: Issuer, workspace: str, desk: LocalDesk
    ) -> None:
        await issuer.person(workspace, "bob", role=Role.MEMBER)
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        refused = Page((await press(ann, question, "hand over", people="bobb")).text).words
        assert "did you mean 'bob'?" in refused
        assert "?." not in refused
        assert "Not possible: name at least one" in Page((await press(ann, question, "bring in")).text).words

    @pytest.mark.parametrize(
        ("people", "why"),
        [
            ("", "name at least one"),
            ("deploy-bot", "the asker cannot answer"),
            ("nobody-here", "nobody-here"),
        ],
    )
    @pytest.mark.parametrize("settings", [{"check_recipients": True}])
    async def test_wrong_names_are_refused_and_kept(
        self,
        ann: httpx2.AsyncClient,
        desk: LocalDesk,
        issuer: Issuer,
        workspace: str,
        people: str,
        why: str,
    ) -> None:
        await issuer.person(workspace, "bob", role=Role.MEMBER)
        shared = await desk.post("Refund?", form=REFUND, recipients=["ann", "bob"])
        refused = await press(ann, shared, "bring in", people=people, reason="because")
        assert refused.status_code == 422
        shown = Page(refused.text)
        assert why in shown.words
        kept = next(each for each in shown.sheets if ("do", "bring in") in each.buttons)
        assert kept.sent()["people"] + kept.sent()["reason"] == [people, "because"]
        assert (await desk.get(shared.id)).added == ()

    async def test_a_policy_that_names_people_is_not_changed(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, boss: httpx2.AsyncClient
    ) -> None:
        rules = [{"name": "finance", "when": "true", "then": {"require": {"people": ["ann"]}}}]
        made = await boss.put("/v1/policy", json={"rules": rules}, headers=ORIGIN)
        assert made.status_code == 200, made.text
        question = await desk.post("Refund?", form=REFUND)
        shown = await open_page(ann, here(question))
        assert "The policy says who answers this." in shown.words
        assert not [each for each in shown.sheets if ("do", "bring in") in each.buttons]
        refused = await press(ann, question, "hand over", people="boss")
        assert refused.status_code == 422
        assert (await desk.get(question.id)).added == ()


class TestSettingAside:
    async def test_not_for_me_leaves_it_to_the_others(
        self, ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, shared: Question
    ) -> None:
        assert "not for me" in forms(await open_page(ann, here(shared)))
        assert (await press(ann, shared, "not for me")).status_code == 303
        assert shared.id not in await inbox(ann)
        assert shared.id in await inbox(bob)
        aside = await open_page(ann, "/aside")
        assert shared.id in aside.html
        assert "for good" in aside.words
        assert shared.id not in await inbox(bob, "/aside")
        back = await send(ann, aside.sheet("data-put-back"))
        assert (back.status_code, back.headers["location"]) == (303, f"/aside#q-{shared.id}")
        assert shared.id in await inbox(ann)
        assert "Nothing is set aside" in (await open_page(ann, "/aside")).words

    async def test_if_nobody_else_may_answer_there_is_only_declining(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        shown = await open_page(ann, here(question))
        assert "not for me" not in forms(shown)
        assert "I will not answer this" in shown.words
        assert "End for everyone" not in shown.words
        assert (await press(ann, question, "not for me")).status_code == 422

    async def test_ending_it_for_everyone_has_its_own_name(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, shared: Question
    ) -> None:
        shown = await open_page(ann, here(shared))
        assert "End for everyone" in shown.words
        assert "I will not answer this" not in shown.words
        assert (await send(ann, shown.sheet("data-decline"))).status_code == 303
        assert isinstance((await desk.get(shared.id)).outcome, Declined)

    async def test_a_vote_ends_nothing(self, ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
        for veto, ends in ((False, False), (True, True)):
            question = await desk.post("Refund?", form=REFUND, recipients=["ann", "bob"], quorum=2, veto=veto)
            assert ("End for everyone" in (await open_page(ann, here(question))).words) is ends

    @pytest.mark.parametrize("clock", [None])  # the page counts from the time of this machine
    @pytest.mark.parametrize(
        ("fields", "least", "most"),
        [
            ({"until": "hour"}, timedelta(minutes=59), timedelta(minutes=61)),
            ({"until": "tomorrow"}, timedelta(hours=8), timedelta(hours=34)),
            ({"until": "monday"}, timedelta(hours=8), timedelta(days=7, hours=10)),
        ],
    )
    async def test_snoozing(
        self,
        ann: httpx2.AsyncClient,
        desk: LocalDesk,
        fields: dict[str, str],
        least: timedelta,
        most: timedelta,
    ) -> None:
        question = await desk.post("Refund?", form=REFUND, recipients=["ann"])
        assert (await press(ann, question, "snooze", **fields)).status_code == 303
        [aside] = (await desk.get(question.id)).aside
        assert aside.until is not None
        assert least <= aside.until - datetime.now(UTC) <= most
        assert question.id not in await inbox(ann)
        assert "You snoozed this until" in (await open_page(ann, here(question))).words
        assert question.id in await inbox(ann, "/aside")

    async def test_until_the_morning_of_a_day_on_their_clock(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, shared: Question
    ) -> None:
        ann.cookies.set("time_zone", "Asia/Tokyo")
        day = (datetime.now(UTC) + timedelta(days=10)).date()
        assert (await press(ann, shared, "snooze", until="day", day=day.isoformat())).status_code == 303
        [aside] = (await desk.get(shared.id)).aside
        assert aside.until == datetime(day.year, day.month, day.day, 0, tzinfo=UTC)

    @pytest.mark.parametrize("day", ["", "2020-01-01", "soon", "9999-99-99"])
    async def test_a_day_must_come(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, shared: Question, day: str
    ) -> None:
        refused = await press(ann, shared, "snooze", until="day", day=day)
        assert refused.status_code == 422
        assert "choose a day" in Page(refused.text).words
        assert (await desk.get(shared.id)).aside == ()

    async def test_the_last_day_of_the_calendar_is_no_error(
        self, ann: httpx2.AsyncClient, shared: Question
    ) -> None:
        ann.cookies.set("time_zone", "America/New_York")
        assert (await press(ann, shared, "snooze", until="day", day="9999-12-31")).status_code in (303, 422)


class TestWhoMustNotGetIn:
    @pytest.mark.parametrize("do", ALL)
    async def test_no_stranger_no_administrator_and_no_other_site(
        self,
        ann: httpx2.AsyncClient,
        bob: httpx2.AsyncClient,
        boss: httpx2.AsyncClient,
        desk: LocalDesk,
        do: str,
    ) -> None:
        question = await desk.post("Refund?", form=REFUND, recipients=["ann", "cid"])
        fields = {"do": do, "people": "bob", "until": "hour"}
        assert (await bob.post(here(question), data=fields, headers=ORIGIN)).status_code == 404
        assert (await boss.post(here(question), data=fields, headers=ORIGIN)).status_code == 403
        assert forms(await open_page(boss, here(question))) == set()
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {}):
            forged = await ann.post(here(question), content=f"do={do}&people=bob", headers=headers | FORM)
            assert forged.status_code == 403
        ann.cookies.clear()
        assert (await ann.post(here(question), data=fields, headers=ORIGIN)).headers["location"] == "/sign-in"
        assert len(await desk.history(question.id)) == 1

    @pytest.mark.parametrize("do", ALL)
    async def test_not_the_asker(
        self, client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str, do: str
    ) -> None:
        desk = ctx.desk.scoped(workspace, asker="ann")
        question = await desk.post("Refund?", form=REFUND)
        client.cookies.set("handraise", await issuer.person(workspace, "ann", role=Role.ADMIN))
        fields = {"do": do, "people": "bob", "until": "hour"}
        assert (await client.post(here(question), data=fields, headers=ORIGIN)).status_code == 403
        assert len(await desk.history(question.id)) == 1

    @pytest.mark.parametrize("do", ALL)
    async def test_a_link_shares_with_nobody(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, shared: Question, do: str
    ) -> None:
        path = await link_to(ctx, shared)
        shown = await open_page(ann, path)
        assert forms(shown) == {"not for me"}
        assert "people-names" not in shown.html
        fields = {"do": do, "people": "bob", "until": "hour"}
        sent = await ann.post(path, data=fields, headers=ORIGIN)
        assert sent.status_code == (303 if do in ("not for me", "put back") else 403)
        kinds = [event.kind for event in await desk.history(shared.id)]
        assert kinds == (["asked", "set_aside"] if do == "not for me" else ["asked"])

    @pytest.mark.parametrize("do", ALL)
    async def test_nothing_happens_once_it_has_ended(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, shared: Question, do: str
    ) -> None:
        await desk.decline(shared.id, by="bob")
        late = await press(ann, shared, do, people="cid", until="hour")
        assert late.status_code == 409
        assert "Declined by bob" in Page(late.text).words
        assert len(await desk.history(shared.id)) == 2

    async def test_names_are_only_texts(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, shared: Question, issuer: Issuer, workspace: str
    ) -> None:
        evil = "<img src=x onerror=alert(1)>"
        await issuer.person(workspace, Responder(evil, frozenset({'"><b>'})), role=Role.MEMBER)
        await desk.bring_in(shared.id, [evil], by="ann", reason=evil)
        await desk.take(shared.id, by=evil)
        for path in (here(shared), "/"):
            shown = await open_page(ann, path)
            assert "img" not in {tag for tag, attrs in shown.tags if attrs.get("src") == "x"}
            assert f"{evil} is on this" in shown.words
