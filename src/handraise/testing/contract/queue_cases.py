"""The queue of pending questions at the store: its order, and how many one asker may have in it."""

from __future__ import annotations

from datetime import timedelta
from typing import Unpack

import pytest

from handraise import Approval, Escalation, Question, Responder, Timeline
from handraise.errors import KeyConflict, QuotaExceeded
from handraise.model.drafting import compose
from handraise.model.lifecycle import answer_move, ask_back_move
from handraise.ports import Filter, Store
from handraise.questions import Draft, Limits, PendingFilters, QuestionOptions
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise


class QueueCases(ContractFixtures):
    """What a store promises about pending questions; part of `StoreContract`."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("A contract class needs a `store` fixture.")

    @pytest.fixture
    def elsewhere(self, workspace: str) -> str:
        return f"{workspace}-2"

    async def test_an_asker_has_no_more_pending_than_its_quota(self, store: Store, workspace: str) -> None:
        drafts = [_draft(workspace, f"q-{n}") for n in range(5)]
        posted = await store.insert(drafts[:2], quota=3)
        more = await store.insert(drafts[2:], quota=3)
        assert [isinstance(each, Question) for each in (*posted, *more)] == [True, True, True, False, False]
        refused = more[-1]
        assert isinstance(refused, QuotaExceeded)
        assert (refused.asker, refused.workspace, refused.quota) == ("agent", workspace, 3)
        assert await store.count_pending(workspace, "agent") == 3
        assert await store.read([drafts[3].ref, drafts[4].ref]) == [None, None]
        assert await store.history(drafts[4].ref) == []

    async def test_what_is_settled_leaves_room_in_a_quota(self, store: Store, workspace: str) -> None:
        first, second = await store.insert([_draft(workspace, "q-1"), _draft(workspace, "q-2")], quota=2)
        assert isinstance(first, Question)
        assert isinstance(second, Question)
        (refused,) = await store.insert([_draft(workspace, "q-3")], quota=2)
        assert isinstance(refused, QuotaExceeded)
        assert isinstance((await store.settle([answer_move(first, Responder("ana"), "a")]))[0], Question)
        (posted,) = await store.insert([_draft(workspace, "q-3")], quota=2)
        assert isinstance(posted, Question)

    @promise("P9")
    async def test_a_quota_never_refuses_a_question_that_is_there(self, store: Store, workspace: str) -> None:
        known = [_draft(workspace, "q-1", key="a"), _draft(workspace, "q-2")]
        first, second = await store.insert(known, quota=3)
        # A question that is already stored does not count towards the quota in a batch either.
        again = [
            _draft(workspace, "q-7", key="a"),
            known[1],
            _draft(workspace, "q-8"),
            _draft(workspace, "q-9"),
        ]
        results = await store.insert(again, quota=3)
        assert results[:2] == [first, second]
        assert sorted(isinstance(each, Question) for each in results[2:]) == [False, True]
        assert await store.insert(again[:2], quota=1) == [first, second]

    @promise("P8")
    @pytest.mark.parametrize("options", [{}, {"topic": "vat-rate"}], ids=["no topic", "a topic"])
    async def test_of_two_askers_with_one_id_in_a_batch_one_has_the_question_and_the_other_a_conflict(
        self, store: Store, workspace: str, options: QuestionOptions
    ) -> None:
        drafts = [
            compose(
                f"From {asker}?",
                {"key": asker, **options},
                new_id="q-1",
                workspace=workspace,
                asker=asker,
                limits=Limits(),
            )
            for asker in ("zoe", "ann", "max")
        ]
        posted = await store.insert(drafts)
        [stored] = await store.read([drafts[0].ref])
        assert stored is not None
        for draft, result in zip(drafts, posted, strict=True):
            if draft.asker == stored.asker:
                assert result == stored
            else:
                assert isinstance(result, KeyConflict)
                assert result.existing is None

    @promise("P8")
    async def test_a_quota_is_each_askers_own_in_each_workspace(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        drafts = [
            _draft(workspace, "q-1"),
            _draft(workspace, "q-2", asker="other"),
            _draft(elsewhere, "q-3"),
            _draft(workspace, "q-4"),
        ]
        results = await store.insert(drafts, quota=1)
        assert [isinstance(each, Question) for each in results] == [True, True, True, False]
        (unlimited,) = await store.insert([drafts[3]])
        assert isinstance(unlimited, Question)

    async def test_the_most_urgent_comes_first_however_many_wait(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        hour = timedelta(hours=1)
        plain = [_draft(workspace, f"q-{n}", recipients=["ana", "group:ops"]) for n in range(4)]
        risky = [
            _draft(workspace, f"risk-{risk}", recipients=["ana"], form=Approval.of("pay", {}, risk=risk))
            for risk in ("low", "medium", "high")
        ]
        ending = [
            _draft(workspace, f"end-{n}", recipients=["group:ops", "ana"], expires_in=n * hour)
            for n in (3, 2)
        ]
        late = Timeline(escalate=(Escalation(after=hour, to=("boss", "ana")),), expire=9 * hour)
        escalated = _draft(workspace, "a-late", recipients=["bob"], timeline=late, conversation="c")
        other = _draft(workspace, "other", asker="other", recipients=["ana"])
        await store.insert([*plain, *risky, *ending, escalated, other])
        ana = Responder("ana", groups=frozenset({"ops"}))
        order = [
            "risk-high",
            "end-2",
            "end-3",
            "risk-medium",
            "risk-low",
            "other",
            "q-0",
            "q-1",
            "q-2",
            "q-3",
        ]
        assert await _walk(store, Filter(workspace=workspace, recipient=ana)) == order
        assert await _walk(store, Filter(workspace=workspace)) == [*order[:3], "a-late", *order[3:]]
        clock.advance(hour)
        await store.run_due(limit=10, workspace=workspace)
        order[:2] = ["end-2", "risk-high"]
        assert await _walk(store, Filter(workspace=workspace, recipient=ana)) == ["a-late", *order]
        assert await _walk(store, Filter(workspace=workspace)) == ["a-late", *order]
        assert await _walk(store, Filter(workspace=workspace, recipient=Responder("boss"))) == ["a-late"]
        assert await _walk(store, Filter(workspace=workspace, conversation="c")) == ["a-late"]
        assert await _walk(store, Filter(workspace=workspace, asker="other", recipient=ana)) == ["other"]
        assert (
            await _walk(store, Filter(workspace=workspace, asker="other", recipient=Responder("bob"))) == []
        )

    async def test_the_last_hour_comes_before_high_risk_and_high_risk_before_any_other_expiry(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        await _post_one_of_each(store, clock, workspace)
        order = [
            "escalated",
            "high risk, 30 minutes",
            "low risk, 30 minutes",
            "high risk, 20 days",
            "high risk",
            "low risk, 5 hours",
            "poll, 20 days",
            "poll",
            "asker's turn, 30 minutes",
        ]
        lists = _one_list_in_several_ways(workspace)
        for where in lists:
            assert await _walk(store, where, limit=2) == order
        clock.advance(timedelta(days=20, minutes=-50))
        await store.run_due(limit=10, workspace=workspace)
        order = ["escalated", "high risk, 20 days", "poll, 20 days", "high risk", "poll"]
        for where in lists:
            assert await _walk(store, where, limit=2) == order

    async def test_pages_by_urgency_have_each_question_once_while_the_last_hour_of_some_begins(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        await _post_one_of_each(store, clock, workspace)
        clock.advance(timedelta(days=20, minutes=-65))
        await store.run_due(limit=10, workspace=workspace)
        lists = _one_list_in_several_ways(workspace)
        firsts = [await store.by_urgency(where, after=None, limit=2) for where in lists]
        clock.advance(timedelta(minutes=10))
        for where, page in zip(lists, firsts, strict=True):
            pages = [page]
            while (after := pages[-1].after) is not None:
                pages.append(await store.by_urgency(where, after=after, limit=2))
            assert [[each.id for each in page.places] for page in pages] == [
                ["escalated", "high risk, 20 days"],
                ["high risk", "poll, 20 days"],
                ["poll"],
            ]
            assert (await _walk(store, where))[1:3] == ["high risk, 20 days", "poll, 20 days"]

    async def test_pages_by_urgency_stay_where_they_are(self, store: Store, workspace: str) -> None:
        posted = await store.insert([_draft(workspace, f"q-{n}") for n in range(6)])
        first = await store.by_urgency(Filter(workspace=workspace), after=None, limit=2)
        await store.insert([_draft(workspace, "q-9", expires_in=60)])
        assert isinstance(posted[0], Question)
        await store.settle([answer_move(posted[0], Responder("ana"), "a")])
        second = await store.by_urgency(Filter(workspace=workspace), after=first.after, limit=2)
        assert [each.id for each in second.places] == ["q-2", "q-3"]
        for cursor in ("", "q-2", "x.q-2", "1.q-2", "1.1.", "9" * 40 + ".1.q", "1." + "9" * 40 + ".q"):
            with pytest.raises(ValueError, match="cursor"):
                await store.by_urgency(Filter(workspace=workspace), after=cursor, limit=2)

    async def test_equal_questions_of_one_asker_share_a_number(self, store: Store, workspace: str) -> None:
        await store.insert(
            [
                _draft(workspace, "q-1", choices=["a", "b"]),
                _draft(workspace, "q-2", choices=["a", "b"], recipients=["ana"], expires_in=60),
                _draft(workspace, "q-3", choices=["a", "c"]),
                _draft(workspace, "q-4", choices=["a", "b"], asker="other"),
            ]
        )
        page = await store.by_urgency(Filter(workspace=workspace), after=None, limit=9)
        number = {each.id: each.likeness for each in page.places}
        assert number["q-1"] == number["q-2"]
        assert len({number[each] for each in ("q-1", "q-3", "q-4")}) == 3

    async def test_a_quota_is_full_for_every_later_call(self, store: Store, workspace: str) -> None:
        for n in range(40):
            await store.insert([_draft(workspace, f"q-{n:02}")], quota=32)
        assert await store.count_pending(workspace, "agent") == 32


def _draft(
    workspace: str, question_id: str, *, asker: str = "agent", **options: Unpack[QuestionOptions]
) -> Draft:
    return compose("Which?", options, new_id=question_id, workspace=workspace, asker=asker, limits=Limits())


async def _post_one_of_each(store: Store, clock: ManualClock, workspace: str) -> None:
    """Post questions of every urgency. The numbers in their names are when they expire."""
    minute = timedelta(minutes=1)
    late = Timeline(escalate=(Escalation(after=60 * minute, to=("boss",)),), expire=timedelta(days=50))
    drafts = [_draft(workspace, "escalated", recipients=["ana"], conversation="c", timeline=late)]
    await store.insert(drafts)
    clock.advance(60 * minute)
    await store.run_due(limit=10, workspace=workspace)
    high, low = (Approval.of("pay", {}, risk=risk) for risk in ("high", "low"))
    others: dict[str, QuestionOptions] = {
        "asker's turn, 30 minutes": {"expires_in": 30 * minute, "replies": "program"},
        "poll": {},
        "poll, 20 days": {"expires_in": timedelta(days=20)},
        "high risk": {"form": high},
        "high risk, 20 days": {"form": high, "expires_in": timedelta(days=20)},
        "high risk, 30 minutes": {"form": high, "expires_in": 30 * minute},
        "low risk, 30 minutes": {"form": low, "expires_in": 30 * minute},
        "low risk, 5 hours": {"form": low, "expires_in": 300 * minute},
    }
    where: QuestionOptions = {"recipients": ["ana", "group:ops"], "conversation": "c"}
    turn, *_ = await store.insert(
        [_draft(workspace, name, **(where | options)) for name, options in others.items()]
    )
    assert isinstance(turn, Question)
    assert isinstance((await store.settle([ask_back_move(turn, Responder("ana"), "Why?")]))[0], Question)


def _one_list_in_several_ways(workspace: str) -> list[Filter]:
    """Filters that all find the questions of `_post_one_of_each`, each by a statement of its own."""
    ana = Responder("ana", groups=frozenset({"ops"}))
    everything = PendingFilters(older_than=timedelta(0))
    return [
        Filter(workspace=workspace),
        Filter(workspace=workspace, recipient=ana),
        Filter(workspace=workspace, asker="agent"),
        Filter(workspace=workspace, asker="agent", recipient=ana),
        Filter(workspace=workspace, conversation="c"),
        Filter(workspace=workspace, filters=everything),
        Filter(workspace=workspace, recipient=ana, filters=everything),
    ]


async def _walk(store: Store, where: Filter, *, limit: int = 3) -> list[str]:
    """The ids of everything in the order of urgency, a few at a time."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await store.by_urgency(where, after=after, limit=limit)
        found += [each.id for each in page.places]
        if (after := page.after) is None:
            return found
