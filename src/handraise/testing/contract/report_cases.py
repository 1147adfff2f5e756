"""Reporting: the asker says once what came of an answer, and nobody else does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Desk, NotApproved, Question, QuestionNotFound
from handraise.errors import AlreadyConsumed, AlreadyReported, InvalidReport, NothingToReport
from handraise.questions import Report
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, Backend, ContractFixtures
from handraise.testing.promises import promise

_EXPORT = Approval.of("export_orders", {"month": "2026-10"})
_FULL: dict[str, Any] = {
    "ok": True,
    "text": "182,441 rows",
    "link": "https://files.example/orders.csv?month=10#top",
    "details": {"rows": 182441, "seconds": 1.5, "parts": ["a", "ü", None, True, 1e16]},
}
_WRONG: dict[str, list[Any]] = {
    "ok": [1, None],
    "text": ["", " \n", "\0", "\ud800", "x" * 10_001, 7],
    "details": [float("nan"), {"a": object()}, "x" * 70_000, {"a": "\0"}],
}
_NO_LINKS = (
    "javascript:alert(1)",
    "data:text/html,x",
    "//files.example/a",
    "/orders.csv",
    "https:files.example",
    "https://",
    "ftp://files.example/a",
    "https://files.example/a b",
    "https://files.example/\n",
    "https://bank.example@evil.example/",
    "https://files.example:port/",
    'https://files.example/"><script>',
    "https://files.example/" + "x" * 2_000,
    "",
)


async def consumed(desk: Desk) -> Question:
    """An approval whose action was given out."""
    question = await desk.post("Export?", form=_EXPORT)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    return question


class ReportCases(ContractFixtures):
    """A report is final, and is only for what was answered."""

    @promise("P7")
    async def test_a_report_is_kept_with_the_question_and_leaves_one_event(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await consumed(desk)
        clock.advance(timedelta(minutes=5))
        reported = await desk.report(question.id, **_FULL)
        assert reported.report == Report(**_FULL, at=clock.now())
        assert await desk.get(question.id) == reported
        assert list(await desk.list_settled()) == [reported]
        events = await desk.history(question.id)
        assert [event.kind for event in events] == ["asked", "answered", "consumed", "reported"]
        assert (events[-1].by, events[-1].at, events[-1].data) == ("agent", clock.now(), _FULL)

    @promise("P6")
    async def test_a_report_changes_nothing_else(self, desk: Desk) -> None:
        question = await consumed(desk)
        before = await desk.get(question.id)
        after = await desk.report(question.id, ok=False, text="the disk is full")
        assert (after.status, after.outcome, after.consumed_at) == (
            before.status,
            before.outcome,
            before.consumed_at,
        )
        assert after.report is not None
        assert (after.report.ok, after.report.link, after.report.details) == (False, None, None)
        assert (await desk.history(question.id))[-1].data == {"ok": False, "text": "the disk is full"}

    async def test_what_asks_for_no_approval_cannot_be_used_as_one(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(NotApproved, match="it asks for no approval, but for an answer"):
            await desk.consume_approval(question.id)
        with pytest.raises(TypeError, match="takes an Approval first, not dict"):
            await desk.request_approval({"tool": "x"})  # type: ignore[arg-type]  # as people write it

    @promise("P16")
    async def test_an_approval_that_was_used_names_its_report(self, desk: Desk) -> None:
        question = await consumed(desk)
        with pytest.raises(AlreadyConsumed, match="unknown"):
            await desk.consume_approval(question.id)
        reported = await desk.report(question.id, ok=False, text="the disk is full")
        with pytest.raises(
            AlreadyConsumed, match="It failed, and this was reported: the disk is full"
        ) as used:
            await desk.consume_approval(question.id)
        assert used.value.report == reported.report

    @promise("P7")
    async def test_the_same_report_again_changes_nothing(self, desk: Desk, clock: ManualClock) -> None:
        question = await consumed(desk)
        first = await desk.report(question.id, **_FULL)
        clock.advance(timedelta(days=1))
        other_order = dict(reversed(_FULL["details"].items()))
        assert await desk.report(question.id, **{**_FULL, "details": other_order}) == first
        assert len(await desk.history(question.id)) == 4

    @promise("P6")
    @pytest.mark.parametrize(
        "other",
        [
            {"ok": False},
            {"text": "182,442 rows"},
            {"link": None},
            {"details": {"rows": 182441}},
            {"details": None},
        ],
        ids=["failed", "text", "link", "details", "no details"],
    )
    async def test_another_report_is_refused_and_the_first_one_kept(
        self, desk: Desk, other: dict[str, Any]
    ) -> None:
        question = await consumed(desk)
        first = await desk.report(question.id, **_FULL)
        with pytest.raises(AlreadyReported, match="a report is final") as refused:
            await desk.report(question.id, **{**_FULL, **other})
        assert (refused.value.question_id, refused.value.report) == (question.id, first.report)
        assert await desk.get(question.id) == first
        assert len(await desk.history(question.id)) == 4

    @promise("P2", "P7")
    async def test_of_many_different_reports_one_is_kept(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as other:
            question = await consumed(one)
            told = await asyncio.gather(
                *(
                    desk.report(question.id, ok=bool(number % 2), text=f"{number} rows")
                    for number, desk in enumerate([one, other] * 4)
                ),
                return_exceptions=True,
            )
            (kept,) = [each for each in told if isinstance(each, Question)]
            for each in told:
                assert isinstance(each, Question) or (
                    isinstance(each, AlreadyReported) and each.report == kept.report
                )
            kinds = [event.kind.value for event in await one.history(question.id)]
            assert kinds.count("reported") == 1

    async def test_an_answer_that_is_no_approval_can_have_a_report(self, desk: Desk) -> None:
        question = await desk.post("Which region?", choices=["eu", "us"])
        await desk.answer(question.id, "eu", by="ana")
        reported = await desk.report(question.id, ok=True, text="deployed")
        assert reported.report is not None
        assert (reported.report.text, reported.status) == ("deployed", "answered")

    @promise("P11")
    @pytest.mark.parametrize("ending", ["pending", "declined", "withdrawn", "expired"])
    async def test_what_was_not_answered_has_no_report(
        self, desk: Desk, clock: ManualClock, ending: str
    ) -> None:
        question = await desk.post("Which?", choices=["a", "b"], expires_in=timedelta(hours=1))
        if ending == "declined":
            await desk.decline(question.id, by="ana")
        elif ending == "withdrawn":
            await desk.withdraw(question.id)
        elif ending == "expired":
            clock.advance(timedelta(hours=1))
        with pytest.raises(NothingToReport, match="nobody has answered" if ending == "pending" else ending):
            await desk.report(question.id, ok=True, text="done")
        assert (await desk.get(question.id)).report is None

    @promise("P11")
    @pytest.mark.parametrize("ending", ["approved", "denied", "taken back"])
    async def test_an_approval_that_was_not_used_has_no_report(self, desk: Desk, ending: str) -> None:
        question = await desk.post("Export?", form=_EXPORT)
        await desk.answer(question.id, "deny" if ending == "denied" else "approve", by="ana")
        if ending == "taken back":
            await desk.take_back(question.id, by="ana")
        with pytest.raises(NothingToReport, match="denied" if ending == "denied" else "not been consumed"):
            await desk.report(question.id, ok=True, text="done")
        assert "reported" not in {event.kind for event in await desk.history(question.id)}
        assert (await desk.get(question.id)).report is None

    @promise("P8")
    async def test_only_the_asker_reports(self, desk: Desk) -> None:
        question = await consumed(desk)
        with pytest.raises(REFUSED):
            await desk.scoped(asker="another agent").report(question.id, ok=True, text="mine")
        with pytest.raises(QuestionNotFound):
            await desk.report("nonesuch", ok=True, text="done")
        assert (await desk.get(question.id)).report is None
        assert (await desk.report(question.id, ok=True, text="done")).report is not None

    async def test_what_cannot_be_kept_is_refused(self, desk: Desk) -> None:
        question = await consumed(desk)
        for name, values in _WRONG.items():
            for value in values:
                with pytest.raises(InvalidReport) as refused:
                    await desk.report(question.id, **{**_FULL, name: value})
                assert {each.path.partition(".")[0] for each in refused.value.problems} == {name}
        assert (await desk.get(question.id)).report is None

    async def test_a_link_is_a_web_address(self, desk: Desk) -> None:
        question = await consumed(desk)
        for link in _NO_LINKS:
            with pytest.raises(InvalidReport, match="link"):
                await desk.report(question.id, ok=True, text="done", link=link)
        assert (await desk.get(question.id)).report is None

    async def test_details_are_those_of_the_moment_of_the_report(self, desk: Desk) -> None:
        question, details = await consumed(desk), {"rows": [1]}
        await desk.report(question.id, ok=True, text="done", details=details)
        details["rows"].append(2)
        found = (await desk.get(question.id)).report
        assert found is not None
        assert found.details == {"rows": [1]}

    @promise("P7")
    async def test_a_report_reaches_those_who_follow(self, desk: Desk) -> None:
        question = await consumed(desk)
        seen: list[str] = []
        async with asyncio.timeout(10):
            following = desk.follow(after="")
            await desk.report(question.id, ok=True, text="done")
            async for event in following:
                seen.append(event.kind)
                if event.kind == "reported":
                    break
            await following.aclose()
        assert seen == ["asked", "answered", "consumed", "reported"]


class StoppedReportCases(ContractFixtures):
    """A stop does not keep an agent from saying what it has done."""

    @promise("P18")
    async def test_what_is_stopped_can_be_reported(
        self, desk: Desk, backend: Backend, workspace: str
    ) -> None:
        question = await consumed(desk)
        await backend.stop(workspace)
        assert (await desk.report(question.id, ok=False, text="stopped halfway")).report is not None
