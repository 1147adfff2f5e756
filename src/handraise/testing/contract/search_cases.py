"""Full-text search: what is found, by whom, and what is not found any more."""

from __future__ import annotations

from datetime import timedelta

from handraise import Approval, Choice, Desk, Escalation, Option, Page, Question, Responder, Timeline
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_HOUR = timedelta(hours=1)


class SearchCases(ContractFixtures):
    """Every question is found by its words, and only by those who may see it."""

    @promise("P2")
    async def test_a_search_finds_what_was_asked_and_answered(self, desk: Desk) -> None:
        prompt = await desk.post("Which strategy for the Größe release?", context={"ticket": "OPS-4711"})
        options = await desk.post(
            "Which?", form=Choice(options=(Option(id="b", label="Blue green", description="Zwei Hälften"),))
        )
        asked = Approval.of("wire_money", {"to": "Acme Naïve Ltd", "cents": 129900})
        approval = await desk.post("Pay?", form=asked)
        answered = await desk.post("What else?")
        await desk.answer(answered.id, "Nur den Zwieback", by="ana")
        declined = await desk.post("Who?")
        await desk.decline(declined.id, by="ana", reason="Frag bitte Dolores")
        found = {
            "strategy": prompt,
            "GROSSE release": prompt,
            "ticket ops-4711": prompt,
            '"for the grösse"': prompt,
            "blue gre": options,
            "halften": options,
            "naive 129900": approval,
            "wire_money": approval,
            "zwieb": answered,
            "\U0001d419wieback": answered,
            "dolores": declined,
        }
        for text, question in found.items():
            assert (text, _ids(await desk.search(text))) == (text, [question.id])
        for text in ("strateg release", "zwieback dolores", '"release grosse"', '"strateg"', "nothing"):
            assert (text, _ids(await desk.search(text))) == (text, [])
        assert _ids(await desk.search("which")) == [options.id, prompt.id]
        assert (await desk.search("zwieback")).items == [await desk.get(answered.id)]

    @promise("P8")
    async def test_nobody_finds_what_they_may_not_see(self, desk: Desk, clock: ManualClock) -> None:
        anas = await desk.post("Secret for Ana?", recipients=["ana"])
        ops = await desk.post("Secret for Ops?", recipients=["group:ops"])
        everybodys = await desk.post("Secret for anyone?")
        later = Timeline(remind=(), escalate=(Escalation(after=_HOUR, to=("zoe",)),))
        escalated = await desk.post("Secret for Zoe later?", recipients=["ana"], timeline=later)
        others = desk.scoped(asker="other")
        theirs = await others.post("Secret of another agent?", recipients=["cy"])
        ended = await desk.post("Secret that ended?", recipients=["ana"])
        await desk.answer(ended.id, "secret", by="ana")

        in_ops = Responder("bo", groups=frozenset({"ops"}))
        assert _ids(await desk.search("secret", recipient="ana")) == [
            ended.id,
            escalated.id,
            everybodys.id,
            anas.id,
        ]
        assert _ids(await desk.search("secret", recipient=in_ops)) == [everybodys.id, ops.id]
        assert _ids(await desk.search("secret", recipient="zoe")) == [everybodys.id]
        assert _ids(await desk.search("secret", recipient="cy")) == [theirs.id, everybodys.id]
        assert _ids(await desk.search("secret", asker="other")) == [theirs.id]
        assert _ids(await desk.search("secret", recipient="ana", asker="other")) == []
        clock.advance(_HOUR)
        assert _ids(await desk.search("secret", recipient="zoe")) == [escalated.id, everybodys.id]
        await desk.bring_in(anas.id, ["dee"], by="ana")
        assert _ids(await desk.search("secret", recipient="dee")) == [everybodys.id, anas.id]

    @promise("P8")
    async def test_a_search_stays_in_its_workspace(self, desk: Desk) -> None:
        elsewhere = desk.scoped(f"{desk.workspace}-2")
        here = await desk.post("Where is the treasure?")
        there = await elsewhere.post("Where is the treasure?")
        assert _ids(await desk.search("treasure")) == [here.id]
        assert _ids(await elsewhere.search("treasure")) == [there.id]

    async def test_pages_of_a_search_go_on_where_the_last_one_ended(self, desk: Desk) -> None:
        posted = [await desk.post(f"Which release {n}?", conversation=f"c{n % 2}") for n in range(7)]
        seen: list[str] = []
        after = None
        for _ in range(4):
            page = await desk.search("release", after=after, limit=3)
            seen += _ids(page)
            after = page.next
            if after is None:
                break
        assert seen == [each.id for each in reversed(posted)]
        in_one = await desk.search("release", conversation="c1")
        assert _ids(in_one) == [posted[5].id, posted[3].id, posted[1].id]

    async def test_no_search_is_wrong(self, desk: Desk) -> None:
        await desk.post("Which?")
        strange = (
            "",
            " ",
            '"',
            '""',
            "'",
            "\\",
            ":*",
            "&|!()<->",
            "*",
            "\x00",
            "\ud800",
            "a' | 'b",
            "x" * 9_999,
        )
        for text in strange:
            assert (text, await desk.search(text)) == (text, Page([], None))

    async def test_a_huge_question_is_found_by_its_first_words(self, desk: Desk) -> None:
        question = await desk.post("Beginning?", context=" ".join(f"{'é' * 40}{n}" for n in range(700)))
        assert _ids(await desk.search("beginning")) == [question.id]


def _ids(page: Page[Question]) -> list[str]:
    return [each.id for each in page.items]
