"""What comes back through any channel: who it is, what it means, and what that person is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from handraise import Answered, Approval, Choice, Confirm, Declined, Open
from handraise.channels import Replies, Reply
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk.policy_cache import PolicyCache
from handraise.desk_factory import open_backend
from handraise.events import EventKind
from handraise.model.deliveries import Address
from handraise.model.drafting import Limits
from handraise.model.errors import RequestConflict
from handraise.model.identities import Role
from handraise.model.outcomes import Returned
from handraise.ports import Backend
from handraise.testing import promise
from tests.marked_language import marked_language, unmarked
from tests.samples import with_slow

REFUSED = "I cannot take an answer to this from you. Open your inbox to see what waits for you."


STORES = with_slow(
    ["memory", "postgres"],
    "memory",
    reason="on a database only what tests/contract has of the ledger differs",
)
pytestmark = pytest.mark.parametrize("address", STORES, indirect=True)


@pytest.fixture
async def ports(address: str, workspace: str) -> AsyncIterator[Backend]:
    async with open_backend(address) as ports:
        for person in ("ann", "bob", "cid"):
            await ports.directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
        await ports.directory.put_group(workspace, "ops", ["bob"])
        for person, number in (("ann", "U1"), ("bob", "U2"), ("cid", "U3")):
            await put(ports, workspace, person, number)
        yield ports


@pytest.fixture
async def desk(ports: Backend, workspace: str) -> AsyncIterator[LocalDesk]:
    engine = Engine(ports.store, ports.bus, poll_interval=0.05, policies=PolicyCache(ports.policies))
    yield LocalDesk(engine, workspace=workspace, asker="bot", new_id=uuid7_ids(), limits=Limits())
    await engine.close()


@pytest.fixture
def replies(desk: LocalDesk, ports: Backend) -> Replies:
    # The desk of a server is at home in one workspace and takes replies for all.
    return Replies(desk.scoped("elsewhere"), ports.directory, ports.outbox)


async def put(ports: Backend, workspace: str, recipient: str, number: str, channel: str = "chat") -> None:
    await ports.outbox.put_address(
        Address(workspace=workspace, recipient=recipient, channel=channel, id=number, to="anywhere")
    )


def reply(workspace: str, question_id: str, identity: str = "U1", **rest: Any) -> Reply:
    return Reply(
        workspace=workspace,
        question_id=question_id,
        channel="chat",
        identity=identity,
        evidence="chat-signature",
        **rest,
    )


class TestWho:
    async def test_an_answer_is_that_of_the_person_whose_address_it_is(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", choices=["a", "b"], recipients=["ann"])
        said = await replies.take(reply(workspace, question.id, value="b", details={"message": "7"}))
        assert (said.kind, said.text) == ("taken", "Thank you, your answer was recorded.")
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.channel) == ("b", "ann", "chat")
        assert outcome.evidence == "chat-signature"
        assert said.question is not None
        assert said.question.outcome == outcome
        last = (await desk.history(question.id))[-1]
        assert last.data is not None
        assert last.data["details"] == {"message": "7"}

    async def test_groups_are_those_the_person_is_in_now(
        self, desk: LocalDesk, replies: Replies, ports: Backend, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), recipients=["group:ops"])
        assert (await replies.take(reply(workspace, question.id, "U1", value=True))).kind == "refused"
        await ports.directory.put_group(workspace, "ops", ["ann"])
        assert (await replies.take(reply(workspace, question.id, "U2", value=True))).kind == "refused"
        assert (await replies.take(reply(workspace, question.id, "U1", value=True))).kind == "taken"

    @promise("P8")
    @pytest.mark.parametrize(
        "case",
        ["nobody", "two people", "a group", "anyone", "removed", "other channel", "not asked", "the asker"],
    )
    @pytest.mark.parametrize("ended", [False, True])
    async def test_whoever_may_not_answer_learns_nothing(
        self, desk: LocalDesk, replies: Replies, ports: Backend, workspace: str, case: str, *, ended: bool
    ) -> None:
        recipients = ["bob"] if case == "not asked" else ["ann", "bob", "bot"]
        question = await desk.post("Go?", form=Confirm(), recipients=recipients)
        identity = "U1"
        match case:
            case "nobody":
                identity = "U9"
            case "two people":
                await put(ports, workspace, "cid", "U1")
            case "a group":
                await put(ports, workspace, "group:ops", identity := "R1")
            case "anyone":
                await put(ports, workspace, "*", identity := "R2")
            case "removed":
                await ports.directory.remove_person(workspace, "ann")
            case "other channel":
                await put(ports, workspace, "ann", identity := "M1", channel="mail")
            case "the asker":
                await ports.directory.put_person(workspace, "bot", name="x", email=None, role=Role.ADMIN)
                await put(ports, workspace, "bot", identity := "B1")
        if ended:
            await desk.answer(question.id, True, by="bob")
        before = await desk.history(question.id)
        for what in (
            {"value": True},
            {"text": "yes"},
            {"text": "?"},
            {"declines": True},
            {"value": "?", "id": "1"},
        ):
            said = await replies.take(reply(workspace, question.id, identity, **what))
            assert (said.kind, said.text, said.question) == ("refused", REFUSED, None)
        assert await desk.history(question.id) == before

    @pytest.mark.parametrize("question_id", ["nowhere", "", "\x00", "x" * 10_000, "\ud800"])
    async def test_a_question_that_is_nowhere_is_refused_in_the_same_words(
        self, replies: Replies, workspace: str, question_id: str
    ) -> None:
        assert (await replies.take(reply(workspace, question_id, value=1))).text == REFUSED

    async def test_names_that_nobody_can_have_are_nobodys(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Go?")
        for there, identity in ((workspace, "\x00"), (workspace, "\ud800"), ("\x00", "U1"), ("", "U1")):
            assert (await replies.take(reply(there, question.id, identity, value="x"))).text == REFUSED
            assert await replies.find_address(there, "chat", "ann", identity) is None

    @promise("P8")
    async def test_an_identity_counts_in_its_own_workspace_only(
        self, desk: LocalDesk, replies: Replies, ports: Backend, workspace: str
    ) -> None:
        question = await desk.post("Go?")
        other = f"{workspace}-2"
        await ports.directory.put_person(other, "ann", name="ann", email=None, role=Role.MEMBER)
        await put(ports, other, "ann", "V1")
        assert (await replies.take(reply(workspace, question.id, "V1", value="x"))).kind == "refused"
        assert (await replies.take(reply(other, question.id, "V1", value="x"))).kind == "refused"

    async def test_where_several_have_the_same_id_the_channel_says_whose_it_is(
        self, desk: LocalDesk, replies: Replies, ports: Backend, workspace: str
    ) -> None:
        for person in ("ann", "bob", "group:ops"):
            await put(ports, workspace, person, "default")
        question = await desk.post("Go?", form=Confirm())
        for recipient in (None, "cid", "group:ops", "*"):
            said = await replies.take(
                reply(workspace, question.id, "default", value=True, recipient=recipient)
            )
            assert said.text == REFUSED
        said = await replies.take(reply(workspace, question.id, "default", value=True, recipient="bob"))
        outcome = (await desk.get(question.id)).outcome
        assert (said.kind, getattr(outcome, "by", None)) == ("taken", "bob")


class TestWhat:
    @promise("P18")
    async def test_whoever_may_answer_is_told_that_it_is_stopped_and_by_whom(
        self, desk: LocalDesk, replies: Replies, ports: Backend, workspace: str
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {}), recipients=["ann"])
        await ports.policies.stop(workspace, tool="pay", why="wrong account", by="boss")
        said = await replies.take(reply(workspace, question.id, value="approve"))
        assert (said.kind, "boss stopped tool 'pay'" in said.text) == ("refused", True)
        assert said.text.endswith("wrong account")
        assert (await replies.take(reply(workspace, question.id, "U3", value="approve"))).text == REFUSED
        assert (await replies.take(reply(workspace, question.id, value="deny"))).kind == "taken"

    @promise("P12")
    async def test_what_does_not_fit_is_told_and_the_question_waits(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("a", "b"))
        said = await replies.take(reply(workspace, question.id, value="c"))
        assert (said.kind, said.text.startswith("That does not fit: ")) == ("misfit", True)
        assert said.question is not None
        assert (said.question.outcome, said.question.attempts) == (None, 1)

    async def test_a_text_is_read_as_an_answer(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("Canary", "Rolling"))
        unread = await replies.take(reply(workspace, question.id, text="both, I think"))
        assert (unread.kind, (await desk.get(question.id)).attempts) == ("misfit", 0)
        assert (
            unread.text == "I cannot take that as an answer: reply with the number or the name of an option."
        )
        assert (await replies.take(reply(workspace, question.id, text="2"))).kind == "taken"
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == "Rolling"

    async def test_an_empty_text_is_an_answer_like_any_other(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("What?", form=Open())
        said = await replies.take(reply(workspace, question.id, text="", value="something"))
        assert (said.kind, (await desk.get(question.id)).outcome) == ("misfit", None)

    async def test_somebody_may_decline(self, desk: LocalDesk, replies: Replies, workspace: str) -> None:
        question = await desk.post("What?")
        said = await replies.take(reply(workspace, question.id, declines=True, reason="not mine", value="x"))
        assert (said.kind, said.text) == ("taken", "You declined to answer.")
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Declined)
        assert (outcome.by, outcome.reason, outcome.evidence) == ("ann", "not mine", "chat-signature")

    @pytest.mark.parametrize(
        "how", [{"sends_back": True, "reason": "Only 30."}, {"text": "send back: Only 30."}]
    )
    async def test_somebody_may_send_it_back(
        self, desk: LocalDesk, replies: Replies, workspace: str, how: dict[str, Any]
    ) -> None:
        question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 300}), recipients=["ann"])
        for stranger in ("U2", "U9"):
            refused = await replies.take(reply(workspace, question.id, stranger, **how))
            assert (refused.kind, refused.text, refused.question) == ("refused", REFUSED, None)
        said = await replies.take(reply(workspace, question.id, id="m-1", **how))
        assert (said.kind, said.text) == ("taken", "Sent back. The agent is told what to change.")
        assert (await replies.take(reply(workspace, question.id, id="m-1", **how))).text == said.text
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Returned)
        assert (outcome.by, outcome.reason, outcome.evidence) == ("ann", "Only 30.", "chat-signature")
        assert (await replies.take(reply(workspace, question.id, **how))).kind == "late"

    async def test_sending_back_needs_a_reason(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Refund?", form=Confirm())
        for how in ({"sends_back": True}, {"text": "send back: "}):
            said = await replies.take(reply(workspace, question.id, **how))
            assert (said.kind, said.text) == ("misfit", "That does not fit: reason: say what to change.")
        assert [each.kind for each in await desk.history(question.id)] == [EventKind.ASKED]

    @pytest.mark.parametrize("how", [{"sets_aside": True}, {"text": "Not for me."}])
    async def test_somebody_may_leave_it_to_the_others(
        self, desk: LocalDesk, replies: Replies, workspace: str, how: dict[str, Any]
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), recipients=["ann", "group:ops"])
        for stranger in ("U3", "U9"):
            refused = await replies.take(reply(workspace, question.id, stranger, **how))
            assert (refused.kind, refused.text) == ("refused", REFUSED)
        said = await replies.take(reply(workspace, question.id, **how))
        assert (said.kind, said.text) == ("taken", "You are not asked this any more. The others still are.")
        now = await desk.get(question.id)
        assert ([each.person for each in now.aside], now.outcome) == (["ann"], None)

    async def test_one_who_is_asked_alone_cannot_leave_it(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
        said = await replies.take(reply(workspace, question.id, sets_aside=True))
        assert said.kind == "refused"
        assert "nobody else has this in their inbox" in said.text
        assert (await desk.get(question.id)).aside == ()

    async def test_a_vote_counts_once_and_says_how_many_must_agree(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), quorum=2)
        first = await replies.take(reply(workspace, question.id, "U1", value=True))
        assert (first.kind, first.text) == ("taken", "Your vote counts; 2 people must agree.")
        await replies.take(reply(workspace, question.id, "U1", value=True))
        assert (await desk.get(question.id)).outcome is None
        assert (await replies.take(reply(workspace, question.id, "U2", value=True))).kind == "taken"
        assert isinstance((await desk.get(question.id)).outcome, Answered)

    async def test_whoever_comes_too_late_is_told_kindly_and_not_what_others_said(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("secret choice", "b"))
        await replies.take(reply(workspace, question.id, "U2", value="secret choice"))
        for what in ({"value": "b"}, {"text": "b"}, {"declines": True}, {"value": "nonsense"}):
            late = await replies.take(reply(workspace, question.id, "U1", **what))
            assert late.kind == "late"
            assert late.text == "That question has already been answered, so your reply was not used."
            mine = await replies.take(reply(workspace, question.id, "U2", **what))
            assert (mine.kind, mine.text) == ("late", "You have answered this already.")
        kinds = [event.kind for event in await desk.history(question.id)]
        assert kinds == [EventKind.ASKED, EventKind.ANSWERED]

    @promise("P11")
    async def test_no_reply_approves_by_accident(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}))
        values: list[Any] = [None, 1, "sure", [], {}, {"decision": 1}, {"decision": "Approve"}]
        for value in values:
            assert (await replies.take(reply(workspace, question.id, value=value))).kind == "misfit"
        for text in ("", "ok then", "approve it", "yes but", "👍", "I do not approve"):
            assert (await replies.take(reply(workspace, question.id, text=text))).kind == "misfit"
        assert (await desk.get(question.id)).outcome is None


class TestOnce:
    async def test_the_same_reply_again_is_told_the_same_and_counted_once(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("a", "b"), max_attempts=3)
        said = [await replies.take(reply(workspace, question.id, value="c", id="m-1")) for _ in range(5)]
        assert {(each.kind, each.text) for each in said} == {("misfit", said[0].text)}
        assert (await desk.get(question.id)).attempts == 1
        said = [await replies.take(reply(workspace, question.id, value="a", id="m-2")) for _ in range(5)]
        assert {each.text for each in said} == {"Thank you, your answer was recorded."}
        assert all(each.question is not None for each in said)

    async def test_at_once_from_many_processes_too(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("a", "b"), max_attempts=3)
        given = reply(workspace, question.id, value="c", id="m-1")
        said = await asyncio.gather(*(replies.take(given) for _ in range(10)), return_exceptions=True)
        assert {type(each).__name__ for each in said} <= {"ReplyResult", "RequestConflict"}
        assert (await desk.get(question.id)).attempts == 1

    async def test_ids_are_the_persons_own_and_stand_for_one_thing(
        self, desk: LocalDesk, replies: Replies, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), quorum=2)
        await replies.take(reply(workspace, question.id, "U1", value=True, id="m-1"))
        other = await replies.take(reply(workspace, question.id, "U1", value=False, id="m-1"))
        assert (other.kind, other.text) == (
            "misfit",
            "This was sent twice with different content. The first one counted.",
        )
        assert (await replies.take(reply(workspace, question.id, "U2", value=True, id="m-1"))).kind == "taken"
        assert isinstance((await desk.get(question.id)).outcome, Answered)

    async def test_one_that_is_being_taken_is_not_taken_beside(
        self,
        desk: LocalDesk,
        replies: Replies,
        ports: Backend,
        workspace: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        question = await desk.post("Which?")
        given = reply(workspace, question.id, value="x", id="m-1")
        under_way, go_on = asyncio.Event(), asyncio.Event()
        claim = ports.directory.claim

        async def slowly(*place: str, **rest: Any) -> Any:
            claimed = await claim(*place, **rest)
            under_way.set()
            await go_on.wait()
            return claimed

        with monkeypatch.context() as patch:
            patch.setattr(ports.directory, "claim", slowly)
            first = asyncio.create_task(replies.take(given))
            await asyncio.wait_for(under_way.wait(), 10)
        with pytest.raises(RequestConflict):
            await replies.take(given)
        go_on.set()
        assert (await asyncio.wait_for(first, 10)).kind == "taken"


async def test_people_are_told_in_their_own_language(
    desk: LocalDesk, replies: Replies, ports: Backend, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ports.directory.set_preferences(workspace, "ann", language="de", time_zone=None)
    question = await desk.post("Go?", form=Confirm(), recipients=["ann", "bob"])
    with marked_language(monkeypatch):
        unclear = await replies.take(reply(workspace, question.id, "U1", text="vielleicht"))
        assert (unclear.kind, unmarked([unclear.text])) == ("misfit", [])
        assert "⟦reply with yes or no" in unclear.text  # also the reason, which the model says in English
        other = await replies.take(reply(workspace, question.id, "U2", text="maybe"))
        assert other.text == "I cannot take that as an answer: reply with yes or no, and nothing else."
        taken = await replies.take(reply(workspace, question.id, "U1", text="Ja"))
        assert (taken.kind, unmarked([taken.text])) == ("taken", [])
        late = await replies.take(reply(workspace, question.id, "U1", text="nein"))
        assert (late.kind, unmarked([late.text])) == ("late", [])
