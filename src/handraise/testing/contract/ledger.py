"""The ledger: events are sealed in a chain, and a removed event leaves only the proof that it existed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Unpack

import pytest

from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import BrokenChain, Sealer
from handraise.desk.search_indexer import SearchIndexer
from handraise.model.audit_verification import Verdict, verify
from handraise.model.deliveries import Address
from handraise.model.drafting import Limits, QuestionOptions, compose
from handraise.model.identities import Role
from handraise.model.lifecycle import answer_move, bring_in_move
from handraise.model.move_decisions import Refused
from handraise.model.people import Responder
from handraise.model.questions import Question, Ref
from handraise.model.seals import NOTHING_BEFORE, Hold, Rule, Seal, Signer
from handraise.model.search_words import indexed_tags, indexed_words, query_of
from handraise.ports import Backend, Filter, IndexEntry
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, ContractFixtures
from handraise.testing.contract.workspace_event_cases import WorkspaceEventCases
from handraise.testing.promises import promise

_DAY = timedelta(days=1)
_CANARY = "canary-7f3a-ana-content"


class LedgerContract(WorkspaceEventCases, ContractFixtures):
    """Everything that a ledger promises; you define `ports`, which must use the `clock`."""

    @pytest.fixture
    def ports(self) -> Backend:
        raise NotImplementedError("A contract class needs a `ports` fixture.")

    @promise("P7")
    async def test_every_event_is_sealed_once_and_in_the_order_of_the_feed(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        first = await _sealed(ports, workspace, 2)
        await _answered(ports, workspace, "q-2")
        seals = await _sealed(ports, workspace, 4)
        feed = [event.cursor for event in await ports.store.feed(workspace, after=None, limit=10)]
        assert [cursor for seal in seals for cursor in seal.cursors] == feed
        assert seals[0] == first[0]
        assert (seals[0].number, seals[0].previous) == (1, NOTHING_BEFORE)
        assert [seal.previous for seal in seals[1:]] == [seal.digest for seal in seals[:-1]]
        assert await Sealer(ports.store, ports.ledger).seal(workspace) == 0

    async def test_a_seal_comes_back_as_it_was_made(self, ports: Backend, workspace: str) -> None:
        await _answered(ports, workspace, "q-1")
        (seal, *_) = await _sealed(ports, workspace, 2, signer=NamedSigner("key-a"))
        assert (seal.key_id, seal.signature) == ("key-a", NamedSigner("key-a").sign(seal.digest))
        head = await ports.ledger.head(workspace)
        assert head.seal is not None
        assert await ports.ledger.has_signed(workspace, "key-a")
        assert not await ports.ledger.has_signed(workspace, "key-b")

    async def test_of_many_who_seal_at_once_one_does(self, ports: Backend, workspace: str) -> None:
        for number in range(5):
            await _answered(ports, workspace, f"q-{number}")
        await _final(ports, workspace, 10)
        made = await asyncio.gather(*(Sealer(ports.store, ports.ledger).seal(workspace) for _ in range(8)))
        seals = await _sealed(ports, workspace, 10)
        assert sum(made) <= len(seals)
        cursors = [cursor for seal in seals for cursor in seal.cursors]
        assert len(cursors) == len(set(cursors)) == 10
        assert [seal.number for seal in seals] == list(range(1, len(seals) + 1))

    async def test_a_seal_whose_number_is_taken_or_whose_events_are_gone_is_refused(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        (first, *_) = await _sealed(ports, workspace, 2)
        assert not await ports.ledger.append(first, removals=[])
        last = (await ports.ledger.head(workspace)).seal
        assert last is not None
        false = replace(
            last, number=last.number + 1, previous=last.digest, cursors=("1",), leaves=(bytes(32),)
        )
        assert not await ports.ledger.append(false, removals=[])
        await _sealed(ports, workspace, 2)

    async def test_a_seal_that_would_let_go_of_what_is_there_or_skip_something_is_refused(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        await _sealed(ports, workspace, 2, signer=NamedSigner("key-a"))
        last = (await ports.ledger.head(workspace)).seal
        assert last is not None
        await _answered(ports, workspace, "q-2")
        await _final(ports, workspace, 4)
        feed = [event.cursor for event in await ports.store.feed(workspace, after=None, limit=10)]
        good = replace(
            last,
            number=last.number + 1,
            previous=last.digest,
            cursor=feed[3],
            cursors=tuple(feed[2:]),
            leaves=(bytes(32), bytes(32)),
        )
        everything = replace(good, cursors=tuple(feed), leaves=(bytes(32),) * 4)
        for false in (
            replace(good, oldest=good.number),
            replace(everything, oldest=good.number),
            everything,
            replace(good, cursors=(feed[2], feed[2])),
            replace(good, cursors=(feed[3],), leaves=(bytes(32),)),
            replace(good, key_id=None, signature=None),
        ):
            assert not await ports.ledger.append(false, removals=[])
        assert await ports.ledger.append(good, removals=[])
        assert (await ports.ledger.seals(workspace, after=0, limit=1))[0].number == 1

    async def test_a_workspace_that_has_something_to_seal_is_found(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        assert workspace in await ports.ledger.unsealed(limit=10_000)
        await _sealed(ports, workspace, 2)
        assert workspace not in await ports.ledger.unsealed(limit=10_000)

    @promise("P8")
    async def test_a_chain_is_of_one_workspace(self, ports: Backend, workspace: str) -> None:
        await _answered(ports, workspace, "q-1")
        await _sealed(ports, workspace, 2)
        elsewhere = f"{workspace}-2"
        assert await ports.ledger.seals(elsewhere, after=0, limit=10) == []
        assert (await ports.ledger.head(elsewhere)).seal is None
        assert await ports.ledger.erase(elsewhere, ["q-1"], by="op") == []
        assert await ports.ledger.asked(elsewhere, ["q-1"]) == {}
        assert await ports.ledger.salts(elsewhere, ["q-1"]) == {}
        assert await ports.store.read([Ref(workspace, "q-1")]) != [None]

    async def test_what_was_asked_is_sealed_and_an_export_is_good(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1", context={"amount": 12.5}, recipients=["ana"])
        await _sealed(ports, workspace, 2)
        lines = await _export(ports, workspace)
        (asked, answered) = [line["record"] for line in map(json.loads, lines) if line["type"] == "event"]
        assert asked["asked"]["prompt"] == "Which?"
        assert asked["asked"]["context"] == {"amount": 12.5}
        assert asked["asked"]["recipients"] == ["ana"]
        assert (answered["by"], answered["data"]["value"]) == ("ana", "a")
        verdict = _verdict(lines)
        assert (verdict.fault, verdict.events) == (None, 2)

    async def test_nobody_goes_on_unsigned_or_with_a_key_that_was_replaced(
        self, ports: Backend, workspace: str
    ) -> None:
        old, new = NamedSigner("key-a"), NamedSigner("key-b")
        await _answered(ports, workspace, "q-1")
        await _sealed(ports, workspace, 2)
        await _answered(ports, workspace, "q-2")
        await _sealed(ports, workspace, 4, signer=old)
        await _answered(ports, workspace, "q-3")
        await _final(ports, workspace, 6)
        assert await Sealer(ports.store, ports.ledger).seal(workspace) == 0
        seals = await _sealed(ports, workspace, 6, signer=new)
        await _answered(ports, workspace, "q-4")
        await _final(ports, workspace, 8)
        with pytest.raises(BrokenChain, match="start it with the new key"):
            await Sealer(ports.store, ports.ledger, old).seal(workspace)
        assert await Sealer(ports.store, ports.ledger, new).seal(workspace) >= 1
        assert seals[0].key_id is None
        assert list(dict.fromkeys(seal.key_id for seal in seals)) == [None, "key-a", "key-b"]

    async def test_what_is_erased_is_gone_and_the_chain_stays_good(
        self, ports: Backend, workspace: str
    ) -> None:
        for number in range(3):
            await _answered(ports, workspace, f"q-{number}", context=_CANARY if number == 1 else None)
        await _sealed(ports, workspace, 6)
        before = (await ports.ledger.head(workspace)).seal
        assert await ports.ledger.erase(workspace, ["q-1", "q-9"], by="op") == ["q-1"]
        assert await ports.ledger.erase(workspace, ["q-1"], by="op") == []
        assert await ports.store.read([Ref(workspace, "q-1")]) == [None]
        assert await ports.store.history(Ref(workspace, "q-1")) == []
        assert await ports.ledger.salts(workspace, ["q-1"]) == {}
        await _sealed(ports, workspace, 4)
        lines = await _export(ports, workspace)
        verdict = _verdict(lines)
        assert (verdict.fault, verdict.events, verdict.erased, verdict.unsealed) == (None, 4, 2, 0)
        assert not any(_CANARY in line for line in lines)
        (removal,) = [line["record"] for line in map(json.loads, lines) if line["type"] == "removal"]
        assert (removal["question"], removal["what"], removal["by"]) == ("q-1", "erased", "op")
        assert before is not None
        assert await ports.ledger.seals(workspace, after=before.number - 1, limit=1) == [before]

    async def test_what_is_erased_before_it_is_sealed_is_never_sealed(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        await _answered(ports, workspace, "q-2")
        await ports.ledger.erase(workspace, ["q-1"], by="op")
        seals = await _sealed(ports, workspace, 2)
        assert len(seals[0].leaves) == 2
        assert _verdict(await _export(ports, workspace)).fault is None

    async def test_a_pending_question_is_erased_from_every_inbox(
        self, ports: Backend, workspace: str
    ) -> None:
        question = await _post(ports, workspace, "q-1", recipients=["ana"], key="k")
        assert await ports.store.join(question.ref, by="agent", key="k2")
        assert await ports.ledger.concerning(workspace, "ana") == ["q-1"]
        assert await ports.ledger.erase(workspace, ["q-1"], by="op") == ["q-1"]
        assert await ports.store.count_pending(workspace, "agent") == 0
        assert isinstance(
            (await ports.store.settle([answer_move(question, Responder("ana"), "a")]))[0], Refused
        )
        assert await ports.store.find_by_key(workspace, "agent", "k") is None
        again = await _post(ports, workspace, "q-2", recipients=["ana"], key="k")
        assert again.id == "q-2"
        assert await ports.store.join(again.ref, by="agent", key="k2")

    async def test_if_the_first_of_a_topic_are_erased_the_next_one_is_asked(
        self, ports: Backend, workspace: str
    ) -> None:
        topic = QuestionOptions(topic="rate", recipients=["ana"])
        posted = [await _post(ports, workspace, f"q-{n}", **topic) for n in range(4)]
        assert [each.follows for each in posted] == [None, "q-0", "q-0", "q-0"]
        await ports.ledger.erase(workspace, ["q-0", "q-1"], by="op")
        left = await ports.store.read([each.ref for each in posted[2:]])
        assert [each and each.follows for each in left] == [None, "q-2"]
        waiting = await ports.store.pending(
            Filter(workspace=workspace, recipient=Responder("ana")), after=None, limit=9
        )
        assert [each.id for each in waiting] == ["q-2"]
        assert [each.kind for each in await ports.store.history(posted[2].ref)] == ["asked", "opened"]

    async def test_the_index_goes_on_after_the_last_event_that_it_has(
        self, ports: Backend, workspace: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("handraise.desk.search_indexer.AT_ONCE", 2)
        store, indexer, query = ports.store, SearchIndexer(ports.store), query_of("canary")
        assert query is not None
        for number in range(5):
            await _post(ports, workspace, f"q-{number}", context="Canary")
        assert await indexer.catch_up(workspace, batches=9) == 3
        assert await indexer.catch_up(workspace, batches=9) == 0
        found = await store.search(Filter(workspace=workspace), query, after=None, limit=9)
        assert len(found.questions) == 5

    async def test_the_words_of_an_erased_question_are_gone(self, ports: Backend, workspace: str) -> None:
        store, where, query = ports.store, Filter(workspace=workspace), query_of("canary")
        assert query is not None
        question = await _post(ports, workspace, "q-1", context="Canary")
        await SearchIndexer(store).catch_up(workspace, batches=9)
        assert (await store.search(where, query, after=None, limit=9)).questions == [question]
        assert await ports.ledger.erase(workspace, ["q-1"], by="op") == ["q-1"]
        # One that read it before, and comes too late, puts nothing in again.
        late = IndexEntry("q-1", indexed_words(question), indexed_tags(question))
        after = (await store.next_to_index(workspace, limit=1)).after
        await store.put_in_index(workspace, [late], after=after, cursor=after)
        await _post(ports, workspace, "q-1")
        assert (await store.search(where, query, after=None, limit=9)).questions == []

    async def test_a_persons_questions_are_those_that_name_them_or_that_they_had_a_part_in(
        self, ports: Backend, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")  # by ana
        await _post(ports, workspace, "q-2", recipients=["ana", "bob"])
        await _post(ports, workspace, "q-3", recipients=["bob"])
        voted = await _post(ports, workspace, "q-4", quorum=2)
        await ports.store.settle([answer_move(voted, Responder("ana"), "a")])
        assert await ports.ledger.concerning(workspace, "ana") == ["q-1", "q-2", "q-4"]
        assert await ports.ledger.concerning(workspace, "bob") == ["q-2", "q-3"]
        assert await ports.ledger.concerning(f"{workspace}-2", "ana") == []

    async def test_a_person_is_erased_with_what_is_kept_of_them_besides(
        self, ports: Backend, workspace: str
    ) -> None:
        directory, ledger = ports.directory, ports.ledger
        for who in ("ana", "bob"):
            await directory.put_person(
                workspace, who, name=who, email=f"{who}@example.com", role=Role.MEMBER, by="ana"
            )
            await directory.open_session(
                workspace, f"s-{who}", digest=f"d-{who}", person=who, how="link", lasts=_DAY
            )
            address = Address(
                workspace=workspace, recipient=who, channel="mail", id="1", to=f"{who}@example.com"
            )
            await ports.outbox.put_address(address)
        await directory.open_session(
            workspace, "s-2", digest="d-2", person="bob", how="link", lasts=_DAY, vouched_by="ana"
        )
        await directory.add_link(
            workspace,
            "l-2",
            digest="d-2",
            person="bob",
            purpose="sign-in",
            lasts=_DAY,
            vouched_by="address:ana",
        )
        made = await directory.add_key(workspace, "k-1", digest="k", agent="bot", created_by="ana")
        claim: dict[str, Any] = {"fingerprint": "f", "made": "q-7", "patience": _DAY}
        await directory.claim(workspace, "person:ana since 2026", "once", **claim)
        await directory.save_view(workspace, "ana", "mine", query="view=mine", at_most=1)
        await ledger.erase_person(workspace, "ana")
        assert await directory.find_person(workspace, "ana") is None
        assert await directory.saved_views(workspace, "ana") == []
        assert await directory.find_session(workspace, "d-ana") is None
        assert [each.recipient for each in await ports.outbox.addresses(workspace)] == ["bob"]
        assert await directory.find_session(workspace, "d-bob") is not None
        vouched = await directory.find_session(workspace, "d-2")
        link = await directory.find_link(workspace, "d-2")
        assert vouched is not None
        assert link is not None
        assert (vouched[0].vouched_by, link.vouched_by) == ("erased", "erased")
        assert vouched[1].email_by == "erased"
        (key,) = await directory.keys(workspace, after=None, limit=10)
        assert (key.id, key.created_by) == (made.id, "erased")
        assert (await directory.claim(workspace, "person:ana since 2026", "once", **claim)).state == "new"

    async def test_a_person_is_erased_from_what_they_stopped_held_and_decided(
        self, ports: Backend, workspace: str
    ) -> None:
        await ports.policies.put(workspace, {"rules": []}, by="ana", expected=0)
        await ports.policies.stop(workspace, agent="bot", why="ana says so", by="ana")
        await ports.ledger.hold(replace(_hold(workspace, "h", None), reason="ana says so", by="ana"))
        await ports.ledger.erase_person(workspace, "ana")
        (stop,), (hold,) = await ports.policies.stops(workspace), await ports.ledger.holds(workspace)
        assert (stop.by, stop.why, hold.by, hold.reason) == ("erased",) * 4
        (version,) = await ports.policies.versions(workspace, before=None, limit=9)
        assert version.by == "erased"

    async def test_a_question_concerns_those_who_were_brought_in(
        self, ports: Backend, workspace: str
    ) -> None:
        asked = [await _post(ports, workspace, f"q-{n}", recipients=["bo"]) for n in range(2)]
        moves = [bring_in_move(each, Responder("bo"), ["ana"]) for each in asked]
        assert all(isinstance(each, Question) for each in await ports.store.settle(moves))
        await ports.store.settle([answer_move(asked[1], Responder("bo"), "a")])
        assert await ports.ledger.concerning(workspace, "ana") == ["q-0", "q-1"]

    async def test_a_workspace_keeps_by_its_own_rule(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        elsewhere, forever = f"{workspace}-2", f"{workspace}-3"
        for place in (workspace, elsewhere, forever):
            await _answered(ports, place, "q-1")
        assert await ports.ledger.rules(workspace) is None
        await ports.ledger.put_rule(workspace, Rule(_DAY))
        await ports.ledger.put_rule(forever, Rule(None))
        assert await ports.ledger.rules(workspace) == Rule(_DAY)
        assert await ports.ledger.rules(forever) == Rule(None)
        clock.advance(2 * _DAY)
        await _tidied(ports, keep=None)
        assert await _there(ports, workspace, elsewhere, forever) == [False, True, True]
        await _tidied(ports, keep=_DAY)
        assert await _there(ports, workspace, elsewhere, forever) == [False, False, True]
        await ports.ledger.put_rule(forever, None)
        assert await ports.ledger.rules(forever) is None
        await _tidied(ports, keep=_DAY)
        assert await _there(ports, forever) == [False]

    async def test_what_is_held_is_neither_removed_nor_erased(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        ledger, elsewhere = ports.ledger, f"{workspace}-2"
        for number in range(2):
            await _answered(ports, workspace, f"q-{number}")
        await _answered(ports, elsewhere, "q-0")
        await ledger.hold(_hold(workspace, "case", "q-1"))
        await ledger.hold(_hold(elsewhere, "all", None))
        clock.advance(2 * _DAY)
        await _tidied(ports, keep=_DAY)
        assert await ports.store.read([Ref(workspace, "q-0")]) == [None]
        assert (await ports.store.read([Ref(workspace, "q-1")]))[0] is not None
        assert (await ports.store.read([Ref(elsewhere, "q-0")]))[0] is not None
        assert await ledger.erase(workspace, ["q-1"], by="op") == []
        assert await ledger.erase(elsewhere, ["q-0"], by="op") == []
        assert [hold.name for hold in await ledger.holds(workspace)] == ["case"]
        assert await ledger.lift(workspace, "case")
        assert not await ledger.lift(workspace, "case")
        assert await ledger.holds(workspace) == []
        await _tidied(ports, keep=_DAY)
        assert await ports.store.read([Ref(workspace, "q-1")]) == [None]
        await ledger.lift(elsewhere, "all")

    async def test_what_is_removed_with_time_leaves_a_chain_that_is_good_from_the_oldest_seal_on(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-old")
        (first, *_) = await _sealed(ports, workspace, 2)
        clock.advance(2 * _DAY)
        await _post(ports, workspace, "q-new")
        await _sealed(ports, workspace, 3)
        await _tidied(ports, keep=_DAY)
        loose = _verdict(await _export(ports, workspace))
        assert (loose.fault, loose.removed, loose.unsealed) == (None, 2, 1)
        seals = await _sealed(ports, workspace, 1)
        assert seals[0].number > first.number
        assert seals[-1].oldest == seals[0].number
        verdict = _verdict(await _export(ports, workspace))
        assert (verdict.fault, verdict.first, verdict.events) == (None, seals[0].number, 1)

    async def test_nothing_is_removed_that_a_chain_does_not_cover_yet(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await _answered(ports, workspace, "q-1")
        await _sealed(ports, workspace, 2)
        await _answered(ports, workspace, "q-2")
        clock.advance(2 * _DAY)
        await _tidied(ports, keep=_DAY)
        assert (await ports.store.read([Ref(workspace, "q-2")]))[0] is not None
        assert await ports.store.read([Ref(workspace, "q-1")]) == [None]
        await _sealed(ports, workspace, 2)
        await _tidied(ports, keep=_DAY)
        assert await ports.store.read([Ref(workspace, "q-2")]) == [None]


class NamedSigner:
    """A stand-in for a key: its signature says who signed what."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id

    def sign(self, message: bytes) -> bytes:
        """The key's name before the message."""
        return self.key_id.encode() + message

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the key's name is before the message."""
        return signature == self.sign(message)


async def _post(
    ports: Backend, workspace: str, question_id: str, **options: Unpack[QuestionOptions]
) -> Question:
    options.setdefault("choices", ["a", "b"])
    draft = compose(
        "Which?", options, new_id=question_id, workspace=workspace, asker="agent", limits=Limits()
    )
    (posted,) = await ports.store.insert([draft])
    assert isinstance(posted, Question)
    return posted


async def _answered(
    ports: Backend, workspace: str, question_id: str, **options: Unpack[QuestionOptions]
) -> None:
    question = await _post(ports, workspace, question_id, **options)
    assert isinstance((await ports.store.settle([answer_move(question, Responder("ana"), "a")]))[0], Question)


async def _final(ports: Backend, workspace: str, events: int) -> None:
    """Wait until the feed has this many events: it holds events back while an older transaction is open."""
    async with asyncio.timeout(SOON):
        while len(await ports.store.feed(workspace, after=None, limit=events)) < events:  # noqa: ASYNC110 -- the store decides
            await asyncio.sleep(0.01)


async def _sealed(
    ports: Backend, workspace: str, events: int, *, signer: Signer | None = None
) -> Sequence[Seal]:
    """The chain, once everything is sealed."""
    await _final(ports, workspace, events)
    sealer = Sealer(ports.store, ports.ledger, signer)
    async with asyncio.timeout(SOON):
        while workspace in await ports.ledger.unsealed(limit=10_000):
            await sealer.seal(workspace)
    return await ports.ledger.seals(workspace, after=0, limit=100)


async def _tidied(ports: Backend, *, keep: timedelta | None) -> None:
    """Remove old questions."""
    await ports.store.tidy(keep=keep, limit=10_000)


async def _there(ports: Backend, *workspaces: str) -> list[bool]:
    found = await ports.store.read([Ref(workspace, "q-1") for workspace in workspaces])
    return [question is not None for question in found]


async def _export(ports: Backend, workspace: str) -> list[str]:
    return [line async for line in export_lines(ports.store, ports.ledger, workspace)]


def _verdict(lines: Sequence[str]) -> Verdict:
    return verify(lambda: lines, unsigned=True)


def _hold(workspace: str, name: str, question_id: str | None) -> Hold:
    values: dict[str, Any] = {"since": ManualClock().now(), "by": "op", "reason": "a case"}
    return Hold(workspace=workspace, name=name, question_id=question_id, **values)
