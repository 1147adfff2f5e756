"""What witnesses saw is compared with a chain: what was rebuilt, cut off, or never seen is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise.model.seals import NOTHING_BEFORE, Seal, instant_text
from handraise.model.witnesses import ChainHead, SeenHead, Witness, WitnessComparison

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def chain(length: int, *, every: timedelta = HOUR, salt: bytes = b"") -> list[Seal]:
    """So many seals, one after the other; another salt makes another chain."""
    seals: list[Seal] = []
    for number in range(1, length + 1):
        seals.append(
            Seal(
                workspace="default",
                number=number,
                oldest=1,
                previous=seals[-1].digest if seals else NOTHING_BEFORE,
                sealed_at=START + number * every,
                cursor=f"{number}.0",
                cursors=(f"{number}.0",),
                leaves=(bytes([number]) + salt,),
            )
        )
    return seals


def seen(seals: Sequence[Seal], stamped_at: datetime | None = None) -> Witness:
    heads = [
        SeenHead(head=ChainHead.from_seal(seal), where=f"line {place}", stamped_at=stamped_at)
        for place, seal in enumerate(seals, 1)
    ]
    return Witness(name="heads.jsonl", seen=heads)


def compared(
    seals: Sequence[Seal], *witnesses: Witness, at: datetime | None = None, **options: Any
) -> str | None:
    """What is wrong with a chain that was exported right after its last seal, or at another time."""
    options = {"has_signed": lambda head: head.key_id == "genuine", **options}
    comparison = WitnessComparison(witnesses, **options)
    for seal in seals:
        record = {"cursor": seal.cursor, "at": instant_text(seal.sealed_at - timedelta(seconds=5))}
        if why := comparison.take(seal, seal.digest, [record]):
            return f"seal {seal.number}: {why}"
    last = seals[-1] if seals else None
    return comparison.finish(last, at or (last.sealed_at if last else START))


def test_a_chain_agrees_with_what_was_seen_of_it() -> None:
    seals = chain(5)
    witness = seen([seals[1], seals[3]])
    assert compared(seals, witness) is None
    assert (witness.compared, witness.older, witness.later) == (2, 0, 0)
    assert compared(seals) is None


@pytest.mark.parametrize("number", [1, 3, 5])
def test_another_seal_than_the_one_that_was_seen_is_found(number: int) -> None:
    why = compared(chain(5, salt=b"rebuilt"), seen([chain(5)[number - 1]]))
    assert why is not None
    assert why.startswith(f"seal {number}: line 1 has seal {number}:")
    assert "changed or rebuilt" in why


def test_every_head_counts_and_not_only_the_last_one() -> None:
    # Who rebuilt the chain goes on, and the witness gets the heads of the new one too.
    new = chain(6, salt=b"rebuilt")
    assert compared(new, seen([chain(3)[2], new[3], new[5]])) is not None
    assert compared(new, seen([new[5]]), seen([chain(3)[2]])) is not None


def test_a_fault_says_who_signed_what_was_seen() -> None:
    rebuilt = chain(1, salt=b"rebuilt")
    for key_id, signature, said in (
        ("genuine", b"s", "signed with the key genuine"),
        ("other", b"s", "not signed with a key that was given, so anybody could have sent it"),
        (None, None, "not signed,"),
    ):
        [seal] = chain(1)
        witness = seen([replace(seal, key_id=key_id, signature=signature)])
        assert said in str(compared(rebuilt, witness))


def test_seals_that_were_seen_and_are_not_at_the_end_were_cut_off() -> None:
    seals = chain(5)
    why = compared(seals[:3], seen([seals[1], seals[4]]), at=seals[4].sealed_at + HOUR)
    assert "the chain ends with seal 3: seals were cut off" in str(why)
    assert "the chain ends with seal 0" in str(compared([], seen(seals), at=seals[4].sealed_at + HOUR))


def test_a_head_that_is_later_than_the_export_is_no_fault() -> None:
    seals = chain(5)
    witness = seen([seals[1], seals[4]])
    assert compared(seals[:3], witness) is None
    assert witness.later == 1


def test_a_witness_that_saw_nothing_shows_nothing() -> None:
    seals = chain(3)
    assert "has no head of this workspace" in str(compared(seals, seen(seals), seen([])))
    assert compared([], seen([])) is None


def test_seals_that_nobody_saw_for_long_are_a_fault() -> None:
    seals = chain(5)
    late = seals[2].sealed_at + DAY
    assert compared(seals, seen([seals[1]]), at=late) is None
    why = compared(seals, seen([seals[1]]), at=late + HOUR)
    assert "no witness saw seal 3" in str(why)
    assert compared(seals, seen([seals[1]]), at=late + HOUR, within=2 * DAY) is None
    assert compared(seals, seen([seals[1]]), seen([seals[4]]), at=late + HOUR) is None


def test_what_retention_removed_cannot_be_compared_except_for_the_seal_before_the_first() -> None:
    seals = chain(6)
    witness = seen(seals[:5])
    assert compared(seals[3:], witness) is None
    assert (witness.older, witness.compared) == (2, 3)
    rebuilt = replace(seals[3], previous=bytes(32))
    assert "seal 4: line 1 has seal 3:" in str(compared([rebuilt], seen([seals[2]])))
    assert "nothing can be compared" in str(compared(seals[3:], seen(seals[:2])))


def test_old_events_that_were_sealed_again_behind_what_was_seen_are_found() -> None:
    # The chain claims that retention removed all seals that the witness saw, and has their events in later ones.
    seals = chain(40)
    last = seals[39]
    again = [
        replace(
            seal, number=seal.number + 40, oldest=41, previous=last.digest, sealed_at=last.sealed_at + DAY
        )
        for seal in seals[:1]
    ]
    comparison = WitnessComparison([seen([last])], has_signed=lambda head: bool(head.signature))
    record = {"cursor": "1.0", "at": instant_text(START)}
    why = comparison.take(again[0], again[0].digest, [record])
    assert "it was sealed again" in str(why)


def test_from_a_day_on_every_seal_must_have_been_seen_soon() -> None:
    # An authority's timestamps were deleted with the chain, and made anew for the rebuilt one.
    seals = chain(50)
    anew = seen([seals[49]], stamped_at=seals[49].sealed_at)
    assert compared(seals, anew) is None
    why = compared(seals, anew, since=START)
    assert str(why).startswith("seal 1: the seal says that it was made 2026-03-01T13:00")
    assert compared(seals, anew, since=START + 2 * DAY) is None
    assert compared(seals, seen(seals[::12]), anew, since=START) is None
    # A later seal that was seen in time covers an earlier one that was stamped once more.
    again = seen([seals[0]], stamped_at=seals[0].sealed_at + 9 * DAY)
    assert compared(seals, again, seen(seals[12::12]), anew, since=START) is None


@pytest.mark.parametrize(
    "change",
    [
        {"type": "something else"},
        {"number": 0},
        {"number": "many"},
        {"number": float("inf")},
        {"digest": "ab"},
        {"digest": None},
        {"sealed_at": "2026-03-01T12:00:00"},
        {"sealed_at": 7},
        {"signature": "zz"},
    ],
    ids=str,
)
def test_what_is_no_head_is_refused(change: dict[str, Any]) -> None:
    head = ChainHead.from_seal(chain(1)[0])
    assert ChainHead.from_record(head.record) == head
    with pytest.raises(ValueError, match=r"head of a chain|something else|int\(\)|hexadecimal|isoformat"):
        ChainHead.from_record({**head.record, **change})
    others: list[Any] = [None, [], "text", {}]
    for record in others:
        with pytest.raises(ValueError, match="not the head"):
            ChainHead.from_record(record)
