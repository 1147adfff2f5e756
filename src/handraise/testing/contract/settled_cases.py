"""Settled questions: the latest first, for the people concerned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from handraise import (
    Approval,
    Confirm,
    Desk,
    Escalation,
    InvalidAnswer,
    Page,
    Question,
    Responder,
    Timeline,
)
from handraise.ports.settled_filter import ENDED
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_HOUR = timedelta(hours=1)
_OPS = frozenset({"ops"})


class SettledCases(ContractFixtures):
    """Every settled question can be found again, and only by people who may see it."""

    @promise("P2")
    async def test_settled_lists_every_way_to_end_newest_first(self, desk: Desk, clock: ManualClock) -> None:
        answered, declined, withdrawn = [await desk.post(f"Which {n}?") for n in range(3)]
        exhausted = await desk.post("Which 3?", choices=["a"], max_attempts=1)
        expired = await desk.post("Which 4?", expires_in=_HOUR)
        default = await desk.post("Which 5?", choices=["a"], timeline=Timeline(expire=2 * _HOUR, default="a"))
        pending = await desk.post("Which 6?")
        await desk.withdraw(withdrawn.id)
        await desk.decline(declined.id, by="ana")
        await desk.answer(answered.id, "this", by="ana")
        with pytest.raises(InvalidAnswer):
            await desk.answer(exhausted.id, "x", by="ana")
        for _ in range(2):
            clock.advance(_HOUR)
            await desk.run_due()
        page = await desk.list_settled()
        assert [(question.id, question.status.value) for question in page.items] == [
            (default.id, "answered"),
            (expired.id, "expired"),
            (exhausted.id, "exhausted"),
            (answered.id, "answered"),
            (declined.id, "declined"),
            (withdrawn.id, "withdrawn"),
        ]
        assert page.next is None
        assert page.items == [await desk.get(question.id) for question in page.items]
        assert pending.id not in {question.id for question in page.items}

    async def test_nothing_has_ended_where_everything_waits(self, desk: Desk) -> None:
        await desk.post("Which?")
        assert await desk.list_settled() == Page([], None)

    async def test_what_the_clock_has_ended_is_settled_though_nobody_swept(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Which?", expires_in=_HOUR)
        assert (await desk.list_settled()).items == []
        clock.advance(_HOUR)
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]

    @pytest.mark.parametrize("filtered", ["all", "asker", "conversation", "recipient"])
    async def test_pages_of_settled_go_on_where_the_last_one_ended(self, desk: Desk, filtered: str) -> None:
        where: dict[str, dict[str, str | Responder]] = {
            "all": {},
            "asker": {"asker": "agent"},
            "conversation": {"conversation": "c"},
            "recipient": {"recipient": Responder("ana", groups=_OPS)},
        }
        posted = [
            await desk.post(f"Which {n}?", conversation="c", recipients=["ana", "group:ops"])
            for n in range(7)
        ]
        for question in posted:
            await desk.answer(question.id, "a", by="ana")
        seen: list[Question] = []
        after = None
        for _ in range(5):
            page = await desk.list_settled(after=after, limit=3, **where[filtered])  # type: ignore[arg-type]  # one filter at a time
            assert len(page.items) <= 3
            seen += page.items
            after = page.next
            if after is None:
                break
            # A question that is settled meanwhile comes before the first page, and does not move the others.
            late = await desk.post("Late?", conversation="c", recipients=["ana"])
            await desk.answer(late.id, "a", by="ana")
        assert after is None
        assert [question.id for question in seen] == [question.id for question in reversed(posted)]

    async def test_settled_narrows_by_conversation_asker_and_both(self, desk: Desk) -> None:
        other = desk.scoped(asker="other")
        posted = [
            await desk.post("One?", conversation="c1"),
            await other.post("Two?", conversation="c1"),
            await other.post("Three?", conversation="c2"),
            await other.post("Four?"),
        ]
        for question in posted:
            await desk.answer(question.id, "a", by="ana")
        assert prompts(await desk.list_settled()) == ["Four?", "Three?", "Two?", "One?"]
        assert prompts(await desk.list_settled(conversation="c1")) == ["Two?", "One?"]
        assert prompts(await desk.list_settled(asker="other")) == ["Four?", "Three?", "Two?"]
        assert prompts(await desk.list_settled(asker="other", conversation="c1")) == ["Two?"]
        assert prompts(await desk.list_settled(conversation="c3")) == []

    async def test_a_person_sees_what_they_might_have_answered_and_nothing_else(self, desk: Desk) -> None:
        posted = [
            await desk.post("Anyone?"),
            await desk.post("Ana?", recipients=["ana"]),
            await desk.post("Ops?", recipients=["group:ops"], conversation="c"),
            await desk.post("Bob?", recipients=["bob"]),
            await desk.scoped(asker="ana").post("Asked by Ana?"),
        ]
        for question in posted:
            await desk.scoped(asker=question.asker).withdraw(question.id)
        # The outcome says who withdrew: an asker sees what it took back.
        assert prompts(await desk.list_settled(recipient="ana")) == ["Asked by Ana?", "Ana?", "Anyone?"]
        in_ops = Responder("ana", groups=_OPS)
        assert prompts(await desk.list_settled(recipient=in_ops)) == [
            "Asked by Ana?",
            "Ops?",
            "Ana?",
            "Anyone?",
        ]
        assert prompts(await desk.list_settled(recipient=in_ops, conversation="c")) == ["Ops?"]
        assert prompts(await desk.list_settled(recipient="ana", asker="ana")) == ["Asked by Ana?"]
        assert prompts(await desk.list_settled(recipient="cy")) == ["Asked by Ana?", "Anyone?"]

    async def test_whoever_asked_does_not_see_what_others_answered_as_a_recipient(self, desk: Desk) -> None:
        question = await desk.scoped(asker="ana").post("Which?")
        await desk.answer(question.id, "a", by="bob")
        assert prompts(await desk.list_settled(recipient="ana")) == []
        assert prompts(await desk.list_settled(recipient="cy")) == ["Which?"]

    async def test_whoever_took_part_sees_it_still(self, desk: Desk) -> None:
        """People who have left the group still see what they answered, declined or voted on."""
        names = {"answered": "ana", "declined": "bob", "tried": 'c"y'}
        people = {did: Responder(name, groups=_OPS) for did, name in names.items()}
        answered = await desk.post("Answered?", recipients=["group:ops"])
        declined = await desk.post("Declined?", recipients=["group:ops"])
        voted = await desk.post("Voted?", recipients=["group:ops"], quorum=2)
        await desk.answer(answered.id, "a", by=people["answered"])
        await desk.decline(declined.id, by=people["declined"])
        await desk.answer(voted.id, "a", by=people["tried"])
        await desk.answer(voted.id, "a", by=people["answered"])
        assert prompts(await desk.list_settled(recipient=names["answered"])) == ["Voted?", "Answered?"]
        assert prompts(await desk.list_settled(recipient=names["declined"])) == ["Declined?"]
        assert prompts(await desk.list_settled(recipient=names["tried"])) == ["Voted?"]
        assert prompts(await desk.list_settled(recipient="dee")) == []

    async def test_those_it_was_escalated_to_see_it_and_those_it_might_have_been_do_not(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        timeline = Timeline(escalate=(Escalation(after=_HOUR, to=("zoe", "group:leads")),))
        early, late = [
            await desk.post(prompt, recipients=["ana"], timeline=timeline) for prompt in ("Early?", "Late?")
        ]
        await desk.answer(early.id, "a", by="ana")
        clock.advance(_HOUR)
        await desk.run_due()
        await desk.answer(late.id, "a", by="ana")
        leads = Responder("lee", groups=frozenset({"leads"}))
        assert prompts(await desk.list_settled(recipient="zoe")) == ["Late?"]
        assert prompts(await desk.list_settled(recipient=leads)) == ["Late?"]
        assert prompts(await desk.list_settled(recipient="ana")) == ["Late?", "Early?"]

    @promise("P8")
    async def test_nothing_settled_crosses_a_workspace(self, desk: Desk, workspace: str) -> None:
        elsewhere = desk.scoped(f"{workspace}-2")
        question = await desk.post("Which?", conversation="c", recipients=["ana"])
        await desk.answer(question.id, "a", by="ana")
        for page in (
            await elsewhere.list_settled(),
            await elsewhere.list_settled(recipient="ana"),
            await elsewhere.list_settled(conversation="c"),
            await elsewhere.list_settled(asker="agent"),
        ):
            assert page == Page([], None)

    async def test_settled_narrows_by_how_it_ended_and_by_whom(self, desk: Desk, clock: ManualClock) -> None:
        pay = Approval.of("pay", {"amount": 1})
        for prompt, form in (("Approved?", pay), ("Denied?", pay), ("Answered?", None), ("Voted?", None)):
            quorum = 2 if prompt == "Voted?" else 1
            question = await desk.post(prompt, form=form or Confirm(), quorum=quorum)
            value = {"Approved?": "approve", "Denied?": "deny"}.get(prompt, True)
            for person in ("cy", "ana")[-quorum:]:
                await desk.answer(question.id, value, by=person)
        await desk.decline((await desk.post("Declined?")).id, by="bob")
        await desk.send_back((await desk.post("Returned?")).id, by="bob", reason="more")
        await desk.withdraw((await desk.post("Withdrawn?")).id)
        with pytest.raises(InvalidAnswer):
            await desk.answer(
                (await desk.post("Exhausted?", choices=["a"], max_attempts=1)).id, "x", by="bob"
            )
        await desk.post("Expired?", expires_in=_HOUR)
        clock.advance(_HOUR)
        found = {each: prompts(await desk.list_settled(outcome=each)) for each in ENDED}
        assert found.pop("answered") == ["Voted?", "Answered?", "Denied?", "Approved?"]
        assert all(those == [f"{each.capitalize()}?"] for each, those in found.items()), found
        assert prompts(await desk.list_settled(by="cy")) == ["Voted?"]
        assert prompts(await desk.list_settled(by="bob")) == ["Exhausted?", "Returned?", "Declined?"]
        assert prompts(await desk.list_settled(by="ana", outcome="denied")) == ["Denied?"]
        assert prompts(await desk.list_settled(by="an")) == prompts(await desk.list_settled(by="\x00")) == []
        with pytest.raises(ValueError, match="outcome"):
            await desk.list_settled(outcome="approve")  # type: ignore[arg-type]

    async def test_settled_narrows_by_when_it_ended_and_pages_go_on(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        ends = []
        for n in range(9):
            question = await desk.post(f"{n}?")
            await desk.post(f"still pending {n}")
            settled = await desk.answer(question.id, "a", by="ana")
            assert settled.outcome is not None
            ends.append(settled.outcome.at)
            clock.advance(_HOUR)
        since, until = ends[2], ends[7]
        seen, after = [], None
        for _ in range(9):
            page = await desk.list_settled(since=since, until=until, after=after, limit=2)
            seen += prompts(page)
            if (after := page.next) is None:
                break
        assert seen == ["6?", "5?", "4?", "3?", "2?"]
        assert prompts(await desk.list_settled(until=ends[1])) == ["0?"]
        assert prompts(await desk.list_settled(since=ends[8])) == ["8?"]
        assert await desk.list_settled(until=ends[0]) == Page([], None)
        assert await desk.list_settled(since=ends[8] + _HOUR) == Page([], None)
        assert len((await desk.list_settled(until=datetime.max.replace(tzinfo=UTC))).items) == 9
        assert len((await desk.list_settled(since=datetime.min.replace(tzinfo=UTC))).items) == 9
        with pytest.raises(ValueError, match="time zone"):
            await desk.list_settled(since=since.replace(tzinfo=None))
        with pytest.raises(ValueError, match="years 1 to 9999"):
            await desk.list_settled(since=datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))

    @pytest.mark.parametrize("text", ["\x00", "\ud800"])
    async def test_looking_back_for_what_no_store_could_keep_finds_nothing(
        self, desk: Desk, text: str
    ) -> None:
        question = await desk.post("Which?", conversation="c")
        await desk.answer(question.id, "a", by="ana")
        assert (await desk.list_settled(conversation=text)).items == []
        assert (await desk.list_settled(asker=text)).items == []

    @pytest.mark.parametrize(
        "junk",
        ["", "nonsense", "-1", "1.2.3", "1e3", "٣", "'; --", "9" * 19 + "." + "9" * 19, "\x00", "\ud800"],
    )
    async def test_a_cursor_that_no_page_gave_out_is_refused(self, desk: Desk, junk: str) -> None:
        with pytest.raises(ValueError, match="cursor"):
            await desk.list_settled(after=junk)


def prompts(page: Page[Question]) -> list[str]:
    """The prompts, in the order of a page."""
    return [question.prompt for question in page.items]
