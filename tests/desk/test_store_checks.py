"""Rows that no decision of ours leaves are planted in a store, and the check of its invariants reports each."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from handraise import Approval, Desk, Timeline, open_desk
from handraise.desk.store_checks import check_store
from handraise.desk_factory import open_backend
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.ports import Backend


@dataclass(frozen=True)
class Planted:
    """A store with a desk on it, whose rows can be changed behind its back."""

    desk: Desk
    backend: Backend
    address: str

    async def plant(self, sql: str, **values: str | None) -> None:
        """Run a statement on the tables; `{t}` stands before the name of each, `$name` for a value."""
        values = {"workspace": self.desk.workspace, **values}
        for name in sorted(values, key=len, reverse=True):
            text = values[name]
            sql = sql.replace(f"${name}", "null" if text is None else f"'{text}'")
        if self.address.startswith("sqlite:"):
            path = self.address.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=30)) as file, file:
                file.executescript(sql.replace("{t}", ""))
            return
        connection = await asyncpg.connect(self.address)
        try:
            await connection.execute("set session_replication_role = replica")  # no trigger mends it
            await connection.execute(sql.replace("{t}", "handraise."))
        finally:
            await connection.close()

    async def found(self) -> set[tuple[str, str]]:
        """The questions and the rules that they break."""
        checked = await check_store(self.backend, self.desk.workspace, limit=1_000, nothing_erased=True)
        assert all(each.advice and str(each).startswith(each.question_id) for each in checked.violations)
        return {(each.question_id, each.rule) for each in checked.violations}


@pytest.fixture(params=["sqlite", "postgres"])
def file_or_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'questions.db'}"
    address: str = request.getfixturevalue("postgres")
    return address


@pytest.fixture
async def store(file_or_database: str, workspace: str) -> AsyncIterator[Planted]:
    async with (
        open_backend(file_or_database) as backend,
        open_desk(file_or_database, workspace=workspace) as desk,
    ):
        yield Planted(desk, backend, file_or_database)


async def test_a_store_that_only_desks_have_changed_breaks_no_rule(store: Planted) -> None:
    desk = store.desk
    one = await desk.post("Which?", choices=["a", "b"], topic="t", key="k1", recipients=["ana"])
    await desk.scoped(asker="other").post("Which?", choices=["a", "b"], topic="t", recipients=["ana"])
    await desk.join(one.id, key="k2")
    await desk.bring_in(one.id, ["ben"], by="ana")
    await desk.take(one.id, by="ben")
    timed = await desk.post("When?", timeline=Timeline(remind="5m", expire="1h"), replies="program")
    await desk.ask_back(timed.id, "Whose?", by="ana")
    await desk.answer(one.id, "a", by="ana")
    assert await store.found() == set()
    checked = await check_store(store.backend, desk.workspace, limit=1)
    assert (checked.looked_at, checked.is_complete) == (3, False)


IN_INBOX = """
insert into {t}inbox (workspace, question_id, recipient, asker, main, open)
values ($workspace, $id, 'zoe', 'agent', true, true)
"""
EXPIRED = """
insert into {t}events (workspace, question_id, kind, at)
select workspace, id, 'expired', asked_at from {t}questions where id = $id
"""
JOINED = """
insert into {t}events (workspace, question_id, kind, at, actor, data)
select workspace, id, 'joined', asked_at, 'agent', '{"key": "k"}' from {t}questions where id = $id
"""
PENDING = {
    "in nobody's inbox": ("visible", "update {t}inbox set open = false where question_id = $id"),
    "without a main row": ("one place", "delete from {t}inbox where question_id = $id"),
    "with two main rows": (
        "one place",
        IN_INBOX,
    ),
    "for somebody else": ("copies", "update {t}inbox set recipient = 'zoe' where question_id = $id"),
    "urgency": ("copies", "update {t}inbox set urgency = 4 where question_id = $id"),
    "due_at": ("copies", "update {t}inbox set due_at = asked_at where question_id = $id"),
    "unheard_at": ("copies", "update {t}inbox set unheard_at = asked_at where question_id = $id"),
    "aside": ("copies", """update {t}inbox set aside = '{"ana": 99}' where question_id = $id"""),
    "taken_by": ("copies", "update {t}inbox set taken_by = 'ana' where question_id = $id"),
    "conversation": ("copies", "update {t}inbox set conversation = 'c' where question_id = $id"),
    "kind": ("copies", "update {t}inbox set kind = 'approval' where question_id = $id"),
    "tool": ("copies", "update {t}inbox set tool = 'pay' where question_id = $id"),
    "takes_votes": ("copies", "update {t}inbox set takes_votes = true where question_id = $id"),
    "asker": ("copies", "update {t}inbox set asker = 'nobody' where question_id = $id"),
    "follows in the inbox": ("copies", "update {t}inbox set follows = 'q' where question_id = $id"),
    "an ending event": (
        "events",
        EXPIRED,
    ),
    "no event of asking": ("events", "delete from {t}events where question_id = $id"),
}


SETTLED = {
    "without its ending event": (
        "events",
        "delete from {t}events where question_id = $id and kind = 'answered'",
    ),
    "with another ending event": (
        "events",
        "update {t}events set kind = 'declined' where question_id = $id and kind = 'answered'",
    ),
    "without the event of its use": (
        "events",
        "delete from {t}events where question_id = $id and kind = 'consumed'",
    ),
    "in an inbox": ("one place", IN_INBOX),
}


async def test_every_wrong_row_of_a_pending_question_is_reported(store: Planted) -> None:
    planted = {}
    for what, (rule, sql) in PENDING.items():
        question = await store.desk.post(f"Which, {what}?", choices=["a", "b"])
        await store.plant(sql, id=question.id)
        planted[what] = (question.id, rule)
    found = await store.found()
    assert [what for what, each in planted.items() if each not in found] == []


async def test_every_wrong_row_of_a_settled_question_is_reported(store: Planted) -> None:
    planted = set()
    for rule, sql in SETTLED.values():
        question = await _approved(store.desk)
        await store.desk.consume_approval(question.id)
        await store.plant(sql, id=question.id)
        planted.add((question.id, rule))
    assert await store.found() == planted


async def test_a_place_in_an_inbox_without_a_question_is_reported(store: Planted) -> None:
    await store.plant(IN_INBOX, id="gone")
    assert await store.found() == {("gone", "one place")}


@pytest.mark.parametrize("leader", ["gone", "settled", "follower", "another"])
async def test_a_question_that_follows_none_that_is_asked_is_reported(store: Planted, leader: str) -> None:
    desk = store.desk
    leads, follows, late = [
        await desk.scoped(asker=asker).post("Which?", choices=["a", "b"], topic="t") for asker in "abc"
    ]
    assert (follows.follows, late.follows) == (leads.id, leads.id)
    settled = await desk.post("And then?", choices=["a", "b"])
    await desk.answer(settled.id, "a", by="ana")
    another = await desk.post("Or else?", choices=["a", "b"])
    place = {"gone": "gone", "settled": settled.id, "follower": follows.id, "another": another.id}[leader]
    await store.plant("update {t}questions set follows = $place where id = $id", place=place, id=late.id)
    await store.plant("update {t}inbox set follows = $place where question_id = $id", place=place, id=late.id)
    found = await store.found()
    assert (late.id, "follows") in found
    assert leader == "another" or (late.id, "visible") in found


async def test_a_key_that_names_two_questions_is_reported(store: Planted) -> None:
    await store.desk.post("Which?", choices=["a", "b"], key="k")
    other = await store.desk.post("And then?", choices=["a", "b"])
    await store.plant(
        JOINED,
        id=other.id,
    )
    assert await store.found() == {(other.id, "one key")}


async def test_a_replacement_that_replaces_something_else_is_reported(store: Planted) -> None:
    old = await store.desk.post("Which?", choices=["a", "b"])
    other = await store.desk.post("And then?", choices=["a", "b"])
    await store.plant(
        "update {t}questions set replaced_by = $other where id = $id", id=old.id, other=other.id
    )
    assert await store.found() == {(old.id, "replaced")}


async def test_a_grant_that_was_used_and_is_gone_is_reported(store: Planted) -> None:
    await _approved(store.desk, {"decision": "approve", "scope": "always"})
    asked = await store.desk.post("Pay?", form=_PAY)
    used = await store.desk.apply_grant(asked.id)
    assert used is not None
    assert await store.found() == set()
    await store.plant("delete from {t}grants where workspace = $workspace")
    assert await store.found() == {(used.id, "remembered")}
    erased = await check_store(store.backend, store.desk.workspace, limit=1_000)
    assert not erased.violations


async def test_a_grant_of_another_asker_that_was_used_is_reported(store: Planted) -> None:
    await _approved(store.desk, {"decision": "approve", "scope": "always"})
    asked = await store.desk.post("Pay?", form=_PAY)
    await store.desk.apply_grant(asked.id)
    await store.plant("update {t}grants set asker = 'other' where workspace = $workspace")
    assert await store.found() == {(asked.id, "remembered")}


async def test_a_standing_answer_that_was_used_and_is_gone_is_reported(store: Planted) -> None:
    first = await store.desk.post("Which?", choices=["a", "b"], topic="t")
    answered = await store.desk.answer(first.id, "a", by="ana")
    assert answered.outcome is not None
    until = answered.outcome.at + timedelta(days=1)
    await store.desk.keep_answer(first.id, until=until, by="ana", spot_check=0.0)
    used = await store.desk.post("Which?", choices=["a", "b"], topic="t")
    assert used.outcome is not None
    assert await store.found() == set()
    await store.plant("delete from {t}standing_answers where workspace = $workspace")
    assert await store.found() == {(used.id, "remembered")}


_PAY = Approval.of("pay", {"to": "x"}, scopes=("once", "always"))


async def _approved(desk: Desk, value: Json = "approve") -> Question:
    question = await desk.post("Pay?", form=_PAY)
    return await desk.answer(question.id, value, by="ana")
