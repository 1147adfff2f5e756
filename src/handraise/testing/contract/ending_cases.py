"""Settled questions at the store: what is counted and exported of them, and finding those that a count is about."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from handraise import Approval, Escalation, Responder, Timeline
from handraise.desk.local_desk import LocalDesk
from handraise.desks import desk_from_store
from handraise.model.forms import form_from_json
from handraise.model.outcomes import outcome_of
from handraise.model.provenance import Provenance
from handraise.model.settled_rows import SettledRow, settled_row
from handraise.model.statistics import Ending
from handraise.ports import Filter, Store
from handraise.ports.settled_filter import NO_CHANNEL, SettledFilter
from handraise.testing.buses import SilentBus
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_MINUTE = timedelta(minutes=1)
_OPS = frozenset({"ops"})
_PROMPTS = (
    "paid",
    "failed",
    "slow",
    "declined",
    "returned",
    "voted",
    "default",
    "grant",
    "given",
    "taken back",
)


class EndingCases(ContractFixtures):
    """What a store promises about endings; part of `StoreContract`."""

    @pytest.fixture
    async def ended(self, store: Store, workspace: str, clock: ManualClock) -> AsyncIterator[dict[str, str]]:
        """Questions that ended in different ways: their names by their ids."""
        async with desk_from_store(store, SilentBus(), workspace=workspace, asker="agent") as desk:
            yield await _settle_some(desk, clock)

    @promise("P2")
    async def test_settled_questions_are_found_by_how_they_ended_and_what_they_were(
        self, store: Store, workspace: str, elsewhere: str, ended: dict[str, str]
    ) -> None:
        for ending, wanted in (
            (SettledFilter(ways=("person",)), {"paid", "failed", "slow", "voted", "given"}),
            (SettledFilter(ways=("declined", "returned")), {"declined", "returned"}),
            (SettledFilter(ways=("default", "grant")), {"default", "grant"}),
            (SettledFilter(ways=("withdrawn",)), {"taken back"}),
            (SettledFilter(ways=()), set()),
            (SettledFilter(ways=("person",), outcome="approved"), {"paid", "failed", "given"}),
            (SettledFilter(channel="web"), {"paid", "returned"}),
            (SettledFilter(channel=NO_CHANNEL, ways=("person",)), {"failed", "slow", "voted", "given"}),
            (SettledFilter(tool="pay"), {"paid", "failed"}),
            (SettledFilter(tool="send"), {"declined", "grant", "given", "taken back"}),
            (SettledFilter(tool="nothing"), set()),
            (SettledFilter(risk="high"), {"paid", "failed"}),
            (SettledFilter(risk="medium"), {"declined", "grant", "given", "taken back"}),
            (SettledFilter(group="ops"), {"slow", "voted"}),
            (SettledFilter(group="leads"), set()),
            (SettledFilter(took_at_least=10 * _MINUTE), {"slow", "default"}),
            (SettledFilter(took_at_least=_MINUTE, took_less=30 * _MINUTE), {"slow"}),
            (SettledFilter(took_less=10 * _MINUTE), set(_PROMPTS) - {"slow", "default"}),
            (SettledFilter(is_late=True), {"slow", "default"}),
            (SettledFilter(is_late=True, group="ops", by="ana"), {"slow"}),
            (SettledFilter(has_failed=True), {"failed"}),
        ):
            page = await store.settled(Filter(workspace=workspace, ending=ending), after=None, limit=100)
            assert {ended[each.id] for each in page.questions} == wanted, ending
            assert all(ending.fits(each) for each in page.questions)
            nowhere = await store.settled(Filter(workspace=elsewhere, ending=ending), after=None, limit=100)
            assert nowhere.questions == []

    @promise("P13")
    async def test_endings_tell_of_whom_it_was_asked_who_voted_and_whether_it_was_late(
        self, store: Store, workspace: str, clock: ManualClock, ended: dict[str, str]
    ) -> None:
        found = await store.endings(workspace, since=clock.now() - timedelta(days=1), limit=100)
        by_name: dict[str, Ending] = {ended[each.id]: each for each in found.items}
        assert set(by_name) == set(_PROMPTS)
        assert {name for name, each in by_name.items() if each.is_late} == {"slow", "default"}
        assert {name: each.groups for name, each in by_name.items() if each.groups} == {
            "slow": ("ops",),
            "voted": ("ops",),
        }
        assert by_name["voted"].voters == {"ana", 'b"o'}
        assert by_name["voted"].people == {"ana", 'b"o'}
        assert by_name["slow"].promised_seconds == 600
        assert [name for name, each in by_name.items() if each.failed] == ["failed"]
        assert by_name["returned"].channel == "web"
        assert {name: each.way for name, each in by_name.items()} == {
            **dict.fromkeys(("paid", "failed", "slow", "voted", "given"), "person"),
            **{name: name for name in ("declined", "returned", "default", "grant")},
            "taken back": "withdrawn",
        }

    @promise("P2")
    @pytest.mark.parametrize("limit", [1, 4, 100])
    async def test_an_export_has_every_settled_question_once_oldest_first(
        self, store: Store, workspace: str, elsewhere: str, ended: dict[str, str], limit: int
    ) -> None:
        page = await store.settled(Filter(workspace=workspace), after=None, limit=100)
        questions = list(reversed(page.questions))
        assert {ended[each.id] for each in questions} == set(_PROMPTS)
        rows = await _exported(store, workspace, limit=limit)
        assert [row.id for row in rows] == [question.id for question in questions]
        for row, question in zip(rows, questions, strict=True):
            expected = settled_row(question)
            assert expected is not None
            assert outcome_of(row.status, row.settled_at, json.loads(row.outcome)) == question.outcome
            assert form_from_json(row.form) == question.form
            assert _plain(row) == _plain(expected)
        assert await _exported(store, elsewhere) == []

    async def test_an_export_of_a_time_has_what_was_settled_in_it(
        self, store: Store, workspace: str, clock: ManualClock, ended: dict[str, str]
    ) -> None:
        end = clock.now()  # ten minutes after the first were settled, one more, and twenty later the last one
        late, last, rest = {"slow"}, {"default"}, set(_PROMPTS) - {"slow", "default"}
        always = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        for since, until, wanted in (
            (None, end - 20 * _MINUTE, rest),
            (end - 20 * _MINUTE, None, late | last),
            (end - 20 * _MINUTE, end, late),
            (end, None, last),
            (end, end + _MINUTE, last),
            (end + _MINUTE, None, set()),
            (end + timedelta(days=1), None, set()),
            (None, end - timedelta(days=1), set()),
            (*always, set(_PROMPTS)),
        ):
            rows = await _exported(store, workspace, since=since, until=until, limit=3)
            assert {ended[row.id] for row in rows} == wanted, (since, until)

    async def test_an_export_has_what_is_old_and_nothing_that_waits(
        self, store: Store, workspace: str, clock: ManualClock, ended: dict[str, str]
    ) -> None:
        before = await _exported(store, workspace)
        clock.advance(timedelta(days=1))
        await store.tidy(keep=None, limit=1_000_000)
        async with desk_from_store(store, SilentBus(), workspace=workspace, asker="agent") as desk:
            await desk.post("still pending")
        assert len(before) == len(ended)
        assert await _exported(store, workspace) == before

    @pytest.mark.parametrize("junk", ["", "nonsense", "-1", "1.2.3", "٣", "'; --", "\x00"])
    async def test_an_export_goes_on_only_after_a_cursor_of_its_own(
        self, store: Store, workspace: str, junk: str
    ) -> None:
        with pytest.raises(ValueError, match="cursor"):
            await store.settled_rows(workspace, since=None, until=None, after=junk, limit=10)


async def _exported(
    store: Store,
    workspace: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
) -> list[SettledRow]:
    rows: list[SettledRow] = []
    after = None
    while True:
        page = await store.settled_rows(workspace, since=since, until=until, after=after, limit=limit)
        rows += page.rows
        assert len(page.rows) <= limit
        if page.after is None:
            return rows
        assert page.after != after
        after = page.after


def _plain(row: SettledRow) -> tuple[object, ...]:
    """What is comparable as it is, and the JSON that stores may write differently."""
    parsed = (None if each is None else json.loads(each) for each in (row.recipients, row.votes, row.report))
    return (*row._replace(form="", outcome="", recipients="", votes=None, report=None), *parsed)


async def _settle_some(desk: LocalDesk, clock: ManualClock) -> dict[str, str]:
    ana, web = Responder("ana", _OPS), Provenance(channel="web")
    pay = Approval.of("pay", {"amount": 1}, risk="high")
    send = Approval.of("send", {"to": "all"}, scopes=("once", "always"))
    escalated = Timeline(remind=10 * _MINUTE, escalate=Escalation(after=15 * _MINUTE, to=["group:leads"]))
    usual = Timeline(expire=30 * _MINUTE, default="usual")
    names: dict[str, str] = {}
    for name, form in (("paid", pay), ("failed", pay), ("declined", send), ("taken back", send)):
        names[(await desk.post(name, form=form)).id] = name
    for name, timeline, quorum in (("slow", escalated, 1), ("voted", escalated, 2)):
        question = await desk.post(name, recipients=["group:ops"], timeline=timeline, quorum=quorum)
        names[question.id] = name
    names[(await desk.post("default", timeline=usual)).id] = "default"
    names[(await desk.post("returned")).id] = "returned"
    ids = {name: question_id for question_id, name in names.items()}
    await desk.answer(ids["paid"], "approve", by=ana, provenance=web)
    await desk.answer(ids["failed"], "approve", by=ana)
    await desk.consume_approval(ids["failed"])
    await desk.report(ids["failed"], ok=False, text="no money")
    await desk.decline(ids["declined"], by=ana)
    await desk.withdraw(ids["taken back"])
    await desk.send_back(ids["returned"], by=ana, reason="smaller", provenance=web)
    for person in ('b"o', "ana"):
        await desk.answer(ids["voted"], "a", by=Responder(person, _OPS))
    for name in ("given", "grant"):
        ids[name] = (await desk.post(name, form=send)).id
    await desk.answer(ids["given"], {"decision": "approve", "scope": "always"}, by=ana)
    await desk.apply_grant(ids["grant"])
    clock.advance(10 * _MINUTE)
    await desk.run_due()
    await desk.answer(ids["slow"], "a", by=ana)
    clock.advance(20 * _MINUTE)
    await desk.run_due()
    return {question_id: name for name, question_id in ids.items()}
