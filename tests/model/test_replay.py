"""A history that cannot have happened is found, and so is a row that says something else."""

from __future__ import annotations

from typing import Any

import pytest

from handraise.model.replay import QuestionReplay

AT = "2026-11-16T12:00:00.000000+00:00"
YES: dict[str, Any] = {"value": {"decision": "approve", "digest": "d"}, "by": "ana"}
NO: dict[str, Any] = {"value": {"decision": "deny"}, "by": "ana"}
DONE: dict[str, Any] = {"ok": True, "text": "182,441 rows"}
PENDING: dict[str, Any] = {
    "status": "pending",
    "ending": None,
    "consumed": False,
    "taken_back": False,
    "report": None,
    "thread": 0,
    "added": [],
}


def approved(**other: Any) -> dict[str, Any]:
    ending = {
        "value": YES["value"],
        "by": "ana",
        "source": "person",
        "at": AT,
        "channel": None,
        "evidence": None,
    }
    return {**PENDING, "status": "answered", "ending": ending, **other}


def life(*events: tuple[str, str | None, Any], quorum: int = 1, **asked: Any) -> QuestionReplay:
    """A life of events, each a kind, who it was and its data."""
    found = QuestionReplay()
    for number, (kind, by, data) in enumerate(events, 1):
        record = {"cursor": f"7.{number}", "kind": kind, "by": by, "at": AT, "data": data}
        if kind == "asked":
            form = {"kind": "approval"}
            record["asked"] = {"asker": "bot", "quorum": quorum, "form": form, **asked}
        found.take(record, number)
    return found


ASKED = ("asked", "bot", None)
USED = ("consumed", "bot", {"digest": "d", "request": "r"})
REPORTED = ("reported", "bot", DONE)
ASKED_BACK = ("asked_back", "ana", {"text": "Which customer?"})
NOTED = ("noted", "bob", {"text": "I know them"})
REPLIED = ("replied", "bot", {"text": "Customer 12.", "replies_to": 1})


BROUGHT_IN = ("brought_in", "ana", {"to": ["bo"]})
RETURNED = {
    **PENDING,
    "status": "returned",
    "ending": {"by": "ana", "reason": "no", "at": AT, "channel": None, "evidence": None},
}


@pytest.mark.parametrize(
    ("events", "row"),
    [
        ([ASKED], PENDING),
        ([ASKED, ("reminded", None, None), ("answered", "ana", YES)], approved()),
        ([ASKED, ("answered", "ana", YES), USED, ("revoked", "ana", None)], approved(consumed=True)),
        ([ASKED, ("answered", "ana", YES), ("taken_back", "ana", None)], approved(taken_back=True)),
        ([ASKED, ("something.new", "ana", None)], PENDING),
        ([ASKED, BROUGHT_IN, ("answered", "ana", YES)], approved(added=["bo"])),
        ([ASKED, ("returned", "ana", {"by": "ana", "reason": "no"}), ("replaced", "bot", None)], RETURNED),
        (
            [ASKED, ("answered", "ana", YES), USED, REPORTED],
            approved(consumed=True, report={**DONE, "at": AT}),
        ),
    ],
)
def test_what_happened_is_good(events: list[Any], row: dict[str, Any]) -> None:
    assert life(*events).find_inconsistency(row) is None


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([("answered", "ana", YES)], 1),
        ([ASKED, ASKED], 2),
        ([ASKED, ("answered", "ana", NO), ("answered", "ana", YES)], 3),
        ([ASKED, ("expired", None, None), ("voted", "ana", YES)], 3),
        ([ASKED, ("answered", "bot", YES)], 2),
        ([ASKED, USED], 2),
        ([ASKED, ("answered", "ana", NO), USED], 3),
        ([ASKED, ("answered", "ana", YES), ("consumed", "bot", {"digest": "another"})], 3),
        ([ASKED, ("answered", "ana", YES), USED, USED], 4),
        ([ASKED, ("answered", "ana", YES), ("taken_back", "ana", None), USED], 4),
        ([ASKED, REPORTED], 2),
        ([ASKED, ("declined", "ana", {"by": "ana"}), REPORTED], 3),
        ([ASKED, ("answered", "ana", YES), REPORTED], 3),
        ([ASKED, ("answered", "ana", YES), USED, ("reported", "eve", DONE)], 4),
        ([ASKED, ("answered", "ana", YES), USED, REPORTED, REPORTED], 5),
    ],
)
def test_what_cannot_have_happened_is_named(events: list[Any], place: int) -> None:
    found = life(*events).find_inconsistency(approved(consumed=USED in events))
    assert found is not None
    assert found.place == place


def seen(messages: int) -> dict[str, Any]:
    """An approval of somebody who saw so many messages."""
    return {**YES, "seen": messages}


def test_a_conversation_before_an_approval_is_good() -> None:
    talk = (ASKED, NOTED, ASKED_BACK, REPLIED)
    assert life(*talk, replies="program").find_inconsistency({**PENDING, "thread": 3}) is None
    settled = life(*talk, ("answered", "ana", seen(3)), replies="program")
    assert settled.find_inconsistency(approved(thread=3)) is None


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([ASKED_BACK, REPLIED, ("answered", "ana", seen(1))], "does not cover the whole conversation"),
        ([NOTED, ("answered", "ana", YES)], "does not cover the whole conversation"),
        ([NOTED, ("voted", "ana", YES)], "does not cover the whole conversation"),
        ([("answered", "ana", YES), NOTED], "was answered before"),
        ([ASKED_BACK, ("replied", "eve", {"text": "x"})], "only the asker replies"),
        ([("asked_back", "bot", {"text": "x"})], "only the asker replies"),
        ([("noted", "bot", {"text": "x"})], "only the asker replies"),
    ],
)
def test_a_conversation_that_cannot_have_been_is_named(events: list[Any], why: str) -> None:
    found = life(ASKED, *events, replies="program").find_inconsistency(approved())
    assert found is not None
    assert why in found.why


def test_nobody_asks_back_where_nobody_replies() -> None:
    found = life(ASKED, ASKED_BACK).find_inconsistency({**PENDING, "thread": 1})
    assert found is not None
    assert "cannot reply" in found.why


def test_a_missing_message_is_found() -> None:
    found = life(ASKED, NOTED).find_inconsistency({**PENDING, "thread": 2})
    assert found is not None
    assert "thread" in found.why


def test_a_vote_before_a_reply_does_not_count() -> None:
    events = (ASKED, ("voted", "bob", YES), ASKED_BACK, REPLIED, ("answered", "ana", seen(2)))
    found = life(*events, quorum=2, replies="program").find_inconsistency(approved(thread=2))
    assert found is not None
    assert "2 people had to agree, and only 1 did" in found.why
    refused = (ASKED, ("voted", "bob", NO), ASKED_BACK, REPLIED, ("answered", "ana", NO))
    found = life(*refused, quorum=2, replies="program").find_inconsistency({**PENDING, "thread": 2})
    assert found is not None
    assert found.place is None, "a refusal before a reply still counts"


def test_what_several_had_to_agree_on_is_not_settled_by_one() -> None:
    found = life(ASKED, ("voted", "ana", YES), ("answered", "ana", YES), quorum=2).find_inconsistency(
        approved()
    )
    assert found is not None
    assert "2 people had to agree" in found.why
    assert (
        life(ASKED, ("voted", "bob", YES), ("answered", "ana", YES), quorum=2).find_inconsistency(approved())
        is None
    )


OTHERWISE: dict[str, Any] = {"value": {"decision": "approve", "digest": "another"}, "by": "bob"}


def test_those_who_agree_gave_the_same_answer() -> None:
    events = (ASKED, ("voted", "bob", OTHERWISE), ("answered", "ana", YES))
    found = life(*events, quorum=2).find_inconsistency(approved())
    assert found is not None
    assert "2 people had to agree, and only 1 did" in found.why


@pytest.mark.parametrize(
    ("people", "is_good"),
    [
        (["ana"], True),
        (["bob", "cy"], True),
        (["group:legal"], True),  # the trail does not say who is in it
        (["cy"], False),
        (["bot"], False),
    ],
)
def test_the_people_of_each_need_and_stage_agreed(people: list[str], is_good: bool) -> None:  # noqa: FBT001 -- a case
    needs = [{"people": ["ana"], "count": 1, "stage": 0}, {"people": people, "count": 1, "stage": 1}]
    events = (ASKED, ("voted", "bob", YES), ("answered", "ana", YES))
    found = life(*events, quorum=2, needs=needs).find_inconsistency(approved())
    assert (found is None) is is_good
    denied = life(ASKED, ("answered", "ana", NO), quorum=2, needs=needs).find_inconsistency(PENDING)
    assert denied is not None
    assert denied.place is None, "one refusal may end it"


@pytest.mark.parametrize(
    ("matches", "is_good"),
    [
        ([("r", "allow", "enforce")], True),
        ([("r", "allow", "enforce"), ("x", "deny", "observe")], True),
        ([("r", "allow", "observe")], False),
        ([("other", "allow", "enforce")], False),
        ([("r", "require", "enforce")], False),
        ([("r", "allow", "enforce"), ("x", "require", "enforce")], False),
        ([], False),
    ],
)
def test_what_a_rule_is_said_to_have_allowed_is_in_the_ruling(
    matches: list[tuple[str, str, str]],
    is_good: bool,  # noqa: FBT001 -- a case
) -> None:
    ruling = {
        "version": 1,
        "matches": [dict(zip(("rule", "effect", "mode"), each, strict=True)) for each in matches],
    }
    said = {"value": YES["value"], "by": "policy:r", "source": "policy"}
    ending = approved()["ending"] | {"by": "policy:r", "source": "policy"}
    found = life(ASKED, ("answered", "policy:r", said), ruling=ruling).find_inconsistency(
        approved(ending=ending)
    )
    assert (found is None) is is_good


@pytest.mark.parametrize(
    ("source", "by", "asked", "why"),
    [
        ("standing", "ana", {"form": {"kind": "choice"}, "recipients": ["ana"]}, None),
        ("standing", "ana", {"form": {"kind": "choice"}, "recipients": ["group:tax"]}, None),
        ("shared", "bo", {"form": {"kind": "choice"}, "recipients": ["ana"]}, None),
        ("standing", "ana", {}, "an approval is never answered by"),
        ("shared", "ana", {}, "an approval is never answered by"),
        ("standing", "bo", {"form": {"kind": "choice"}, "recipients": ["ana"]}, "'bo' was not asked"),
        ("standing", "bot", {"form": {"kind": "choice"}}, "the asker cannot answer"),
    ],
)
def test_the_answer_to_another_question_ends_only_what_it_may(
    source: str, by: str, asked: dict[str, Any], why: str | None
) -> None:
    said = {"value": "19", "by": by, "source": source}
    row = approved(ending=approved()["ending"] | said)
    found = life(ASKED, ("answered", by, said), **asked).find_inconsistency(row)
    assert (found is None) is (why is None)
    assert found is None or str(why) in found.why


@pytest.mark.parametrize(
    "row",
    [
        PENDING,
        approved(consumed=True),
        approved(taken_back=True),
        approved(report={**DONE, "at": AT}),
        approved(ending={**approved()["ending"], "by": "eve"}),
        {**approved(), "status": "declined"},
        {},
    ],
)
def test_a_row_that_says_something_else_is_found(row: dict[str, Any]) -> None:
    found = life(ASKED, ("answered", "ana", YES)).find_inconsistency(row)
    assert found is not None
    assert (found.place, "the row of the question" in found.why) == (None, True)


def test_the_order_is_that_in_which_it_happened_not_that_of_transactions() -> None:
    found = QuestionReplay()
    for cursor, kind, by in (("5.3", "answered", "ana"), ("6.1", "asked", "bot"), ("7.2", "voted", "bob")):
        found.take({"cursor": cursor, "kind": kind, "by": by, "at": AT, "data": YES})
    assert found.find_inconsistency(approved()) is None


@pytest.mark.parametrize(
    ("ruling", "by", "fits"),
    [
        ({"version": 1, "matches": [], "close_orphans": 60.0}, "policy:close_orphans", True),
        ({"version": 1, "matches": []}, "policy:close_orphans", False),
        (None, "policy:close_orphans", False),
        (None, "boss", True),
    ],
)
def test_the_policy_closes_only_what_it_says(ruling: Any, by: str, fits: bool) -> None:  # noqa: FBT001 -- parametrized
    said = {"by": by, "reason": "Nobody was waiting for the answer any more."}
    row = {**PENDING, "status": "withdrawn", "ending": {**said, "at": AT}}
    found = life(ASKED, ("withdrawn", by, said), ruling=ruling).find_inconsistency(row)
    assert (found is None) == fits, found
