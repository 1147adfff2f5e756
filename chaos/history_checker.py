"""The checker. A question is a write-once register, so one pass over its calls says whether it was kept.

What was acknowledged is stored, and once. Anyone who looks afterwards sees it. What is stored was done by somebody.
Nothing false was told. Nobody waits who could have been woken. What holds within the store alone, such as that every
transition has exactly one event, is checked by `handraise.model.store_invariants`; its violations come with what is stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.history import EVERY, KILLED, Entry

ENOUGH = 0.6
"""A run counts only if this share of its calls succeeded: one in which everything fails breaks no promise."""
PATIENCE = 10.0
"""How many seconds a waiter may continue to wait, beyond its own time, while its question is settled."""

ENDINGS = frozenset({"answered", "declined", "expired", "withdrawn", "exhausted", "returned"})
_SETTLES = {
    "answer": "answered",
    "vote": "answered",
    "decline": "declined",
    "send_back": "returned",
    "withdraw": "withdrawn",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """What is in the store at the end about one question, in the words of a history."""

    key: str
    id: str
    status: str
    outcome: dict[str, Any] | None = None
    quorum: int = 1
    ends: bool = False
    """Whether its timeline ends it, by expiry or default."""
    voters: Sequence[str] = ()
    consumed: bool = False
    broken: Sequence[tuple[str, str]] = ()
    """The invariants of the store that its rows violate, and how."""
    told: bool = False
    """Whether somebody must be told of it."""
    events: Sequence[tuple[str, str | None]] = ()
    """Kinds, and who."""
    deliveries: Sequence[tuple[str, str, bool]] = ()
    """Ids, statuses, and whether something is left to do."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and how it shows."""

    rule: str
    question: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.question}: {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a run. It counts if enough calls succeeded, and is good if also no promise is broken."""

    calls: int
    succeeded: int
    violations: Sequence[Violation]
    by_op: dict[str, Counter[str]] = field(default_factory=dict)
    questions: int = 0

    def __str__(self) -> str:
        return (
            f"{self.questions:,} questions, {self.calls:,} calls, {self.share:.0%} of them succeeded, {self.unknown:,} "
            f"have an unknown end, {len(self.violations)} violations"
        )

    @property
    def unknown(self) -> int:
        """How many calls may have been done or not."""
        return sum(types["unknown"] for types in self.by_op.values())

    @property
    def share(self) -> float:
        """The share of calls that succeeded."""
        return self.succeeded / self.calls if self.calls else 0.0

    @property
    def counts(self) -> bool:
        """Whether it shows anything."""
        return self.share >= ENOUGH

    @property
    def good(self) -> bool:
        """Whether it shows that the promises were kept."""
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """What keeps it from being good."""
        few = f"only {self.share:.0%} of {self.calls} calls succeeded: {SHOWS_NOTHING}"
        return [*map(str, self.violations), *([] if self.counts else [few])]


@dataclass(slots=True)
class Call:
    """A call and its end, which is None if it never returned."""

    begin: Entry
    end: Entry | None = None

    @property
    def type(self) -> str:
        """How it ended."""
        return "unknown" if self.end is None else self.end.type

    @property
    def may_have_done_it(self) -> bool:
        """Whether it could have caused what is stored."""
        return self.type in {"ok", "unknown"}

    @property
    def by(self) -> str | None:
        """In whose name it was."""
        value = self.begin.value
        return value.get("by") if isinstance(value, dict) else None


def check(
    entries: Iterable[Entry], stored: Iterable[Stored], *, drained: bool = True, patience: float = PATIENCE
) -> Verdict:
    """Check a history, in the order of time, against what is stored.

    `drained` says that everything had the time to end before the store was read, `patience` how many
    seconds later than others a waiter may hear of it.
    """
    calls = list(_calls(entries))
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_key[call.begin.question].append(call)
    records: dict[str, Stored] = {}
    violations: list[Violation] = []
    for record in stored:
        if record.key in records:
            violations.append(
                Violation("key", record.key, f"is both {records[record.key].id} and {record.id}")
            )
        records[record.key] = record
    for key in dict.fromkeys((*by_key, *records)):
        about = by_key.get(key, [])
        if key == EVERY:
            woken = _woken(about, drained=drained, patience=patience)
            violations += [Violation(rule, key, text) for rule, text in woken]
        else:
            violations += _question(key, about, records.get(key), drained=drained, patience=patience)
    by_op: dict[str, Counter[str]] = {}
    for call in calls:
        by_op.setdefault(call.begin.op, Counter())[call.type] += 1
    succeeded = sum(call.type == "ok" for call in calls)
    return Verdict(len(calls), succeeded, violations, by_op, len(by_key.keys() - {EVERY}))


def _calls(entries: Iterable[Entry]) -> Iterator[Call]:
    begun: dict[tuple[str, str, str], list[Call]] = {}
    for entry in entries:
        place = (entry.process, entry.op, entry.question)
        if entry.type == "invoke":
            call = Call(entry)
            begun.setdefault(place, []).append(call)
            yield call
        elif waiting := begun.get(place):
            waiting.pop(0).end = entry
        else:
            raise ValueError(f"{place} ended at {entry.time} and never began")


def _question(
    key: str, calls: Sequence[Call], stored: Stored | None, *, drained: bool, patience: float
) -> Iterator[Violation]:
    """Every broken promise about one question."""
    for rule, text in (
        *_kept(calls, stored),
        *_one_outcome(calls, stored),
        *_seen_by_later_readers(calls),
        *_done_by_somebody(calls, stored),
        *_events(calls, stored),
        *_consumed(calls, stored),
        *_delivered(calls, stored, drained=drained),
        *_woken(calls, drained=drained, patience=patience),
    ):
        yield Violation(rule, key, text)


Broken = Iterator[tuple[str, str]]


def _kept(calls: Sequence[Call], stored: Stored | None) -> Broken:
    """Nothing acknowledged is missing, and the same key is the same question."""
    asked = [call.end for call in calls if call.begin.op == "ask" and call.end and call.type == "ok"]
    ids = {end.value["id"] for end in asked}
    known = min((end.time for end in asked), default=None)
    if len(ids) > 1:
        yield "key", f"its askers were given {sorted(ids)}"
    if ids and stored is None:
        yield "lost ask", "was acknowledged and is not there"
    if stored is not None and ids and stored.id not in ids:
        yield "lost ask", f"{stored.id} is there, acknowledged was {sorted(ids)}"
    for call in calls:
        missed = call.begin.op == "wait" and call.end and call.end.error == "QuestionNotFound"
        if missed and known is not None and call.begin.time > known:
            yield "lost ask", f"{call.begin.process} was told that it is not there after it was acknowledged"
    if stored is not None and not any(call.begin.op == "ask" and call.may_have_done_it for call in calls):
        yield "invented", "is there, and nobody asked it"


def _one_outcome(calls: Sequence[Call], stored: Stored | None) -> Broken:
    """At most one move is accepted, nothing acknowledged is missing, and everybody was told the same."""
    settled = [call for call in calls if call.begin.op in _SETTLES and _outcome(call) and call.type == "ok"]
    if len(settled) > 1:
        yield "two outcomes", f"{len(settled)} moves were accepted: {[_outcome(call) for call in settled]}"
    final = stored.outcome if stored else None
    wrong = [(call, told) for call in calls if (told := _outcome(call)) is not None and told != final]
    for rule, some in (
        ("lost answer", [each for each in wrong if each[0] in settled]),
        ("two outcomes", [each for each in wrong if each[0] not in settled]),
    ):
        for call, told in some[:1]:
            yield rule, f"{call.begin.process} was told {told} by {call.begin.op}, stored is {final}"
    if stored is not None and (stored.status in ENDINGS) is not (final is not None):
        yield "two outcomes", f"is {stored.status} with the outcome {final}"
    acknowledged = {
        call.by
        for call in calls
        if call.begin.op in {"vote", "decline", "send_back"} and call.type == "ok" and call.by
    }
    if stored is not None and stored.quorum > 1 and (missing := acknowledged - set(stored.voters)):
        yield "lost vote", f"of {sorted(missing)}, who were told that it counts"


def _seen_by_later_readers(calls: Sequence[Call]) -> Broken:
    """Anyone who looks after somebody has seen the outcome sees it too, and nobody sees it before it was possible."""
    known = min((call.end.time for call in calls if call.end and _outcome(call)), default=None)
    possible = min((call.begin.time for call in calls if call.begin.op in _SETTLES), default=None)
    for call in calls:
        if call.end is None or call.type != "ok" or call.begin.op not in {"ask", "read", "wait"}:
            continue
        told = _outcome(call)
        if told is None and known is not None and call.begin.time > known:
            yield "stale read", f"{call.begin.process} was told that it is pending after its end was known"
        elif told and told["by"] is not None and (possible is None or call.end.time < possible):
            yield "invented", f"{call.begin.process} was told {told} before anybody had done anything"


def _done_by_somebody(calls: Sequence[Call], stored: Stored | None) -> Broken:
    """The outcome is from somebody who was not refused, or from the timeline if there is one."""
    if stored is None or stored.outcome is None:
        return
    outcome = stored.outcome
    if outcome["status"] == "exhausted":
        return  # seen in its attempts
    if outcome["status"] == "expired" or (outcome["status"] == "answered" and outcome["by"] is None):
        if not stored.ends and not any(call.begin.op == "expire" and call.may_have_done_it for call in calls):
            yield "invented", f"the clock made it {outcome}, and it has no timeline"
        return
    for call in calls:
        if (
            _SETTLES.get(call.begin.op) == outcome["status"]
            and call.may_have_done_it
            and call.by == outcome["by"]
            and (outcome["status"] != "answered" or _is_same(call.begin.value["value"], outcome["value"]))
        ):
            return
    yield "invented", f"{outcome} is stored, and nobody did that without being refused"


def _events(calls: Sequence[Call], stored: Stored | None) -> Broken:
    """What the rows of the store violate; and no more events than moves that were made."""
    if stored is None:
        return
    yield from stored.broken
    kinds = Counter(kind for kind, _ in stored.events)
    for once in ("unreached", "sent"):
        if kinds[once] > 1:
            yield "events", f"was {once} {kinds[once]} times"
    if kinds["revoked"] > max(kinds["kept"], 1):  # a grant once, and each standing answer once
        yield "events", f"was revoked {kinds['revoked']} times, and its answer kept {kinds['kept']} times"
    for made, kind in (({"vote", "decline", "send_back"}, "voted"), ({"answer", "vote"}, "attempted")):
        yield from _as_often_as_done(calls, stored, made, kind)


def _as_often_as_done(calls: Sequence[Call], stored: Stored, ops: set[str], kind: str) -> Broken:
    """Each person has as many events of a kind as moves that are known to have been made, up to those that may be."""
    logged = Counter(by for each, by in stored.events if each == kind)
    settled_by = stored.outcome["by"] if stored.outcome else None
    surely: Counter[str | None] = Counter()
    perhaps: Counter[str | None] = Counter()
    for call in calls:
        if call.begin.op not in ops or (stored.quorum == 1 and kind == "voted"):
            continue
        attempt = call.end is not None and call.end.error == "InvalidAnswer"
        if kind == "attempted":
            surely[call.by] += attempt
            perhaps[call.by] += call.type == "unknown"
        else:
            surely[call.by] += call.type == "ok" and _outcome(call) is None
            perhaps[call.by] += call.type == "unknown"
    for by in surely.keys() | logged.keys():
        exhausted = kind == "attempted" and stored.status == "exhausted" and by == settled_by
        if not surely[by] - exhausted <= logged[by] <= surely[by] + perhaps[by]:
            yield (
                "events",
                f"{by} has {logged[by]} events '{kind}', did so {surely[by]} times, perhaps {perhaps[by]} more",
            )


def _consumed(calls: Sequence[Call], stored: Stored | None) -> Broken:
    """An approval is used up at most once, and never without one."""
    used = [call for call in calls if call.begin.op == "consume" and call.type == "ok"]
    if len(used) > 1:
        yield "consumed twice", f"by {[call.begin.process for call in used]}"
    is_approved = bool(
        stored
        and stored.outcome
        and stored.outcome["status"] == "answered"
        and _is_same("approve", stored.outcome["value"])
    )
    if (used or (stored and stored.consumed)) and not is_approved:
        yield "not approved", f"it was executed, stored is {stored.outcome if stored else None}"
    if used and not (stored and stored.consumed):
        yield "lost consume", "it was executed, and is there to be executed again"
    if (
        stored
        and stored.consumed
        and not any(call.begin.op == "consume" and call.may_have_done_it for call in calls)
    ):
        yield "invented", "is consumed, and nobody did that without being refused"
    tried = [call for call in calls if call.begin.op == "consume"]
    if (
        stored
        and stored.consumed
        and not used
        and all(call.end is not None and call.end.error != KILLED for call in tried)
    ):
        yield "given to nobody", "is consumed, and all who did that lived on and were not told so"


def _delivered(calls: Sequence[Call], stored: Stored | None, *, drained: bool) -> Broken:
    """Nothing is told that is not recorded, a second copy is like the first, and nothing is left untold."""
    copies: dict[str, Any] = {}
    known = {each for each, _, _ in stored.deliveries} if stored else set[str]()
    for call in calls:
        if call.begin.op != "deliver":
            continue
        told = call.begin.value
        if stored is None or told["delivery"] not in known:
            yield "delivered unrecorded", f"{told['delivery']} was sent, and no such delivery is there"
        elif told["outcome"] is not None and told["outcome"] != stored.outcome:
            yield "delivered unrecorded", f"it was told as {told['outcome']}, stored is {stored.outcome}"
        if copies.setdefault(told["message"], told["digest"]) != told["digest"]:
            yield "another copy", f"{told['message']} was not the same each time"
    if stored is None or not drained:
        return
    if stored.told and not stored.deliveries and stored.status == "pending":
        yield "untold", "nobody was told of it, and nothing is left to be done"
    for delivery, status, left in stored.deliveries:
        if left:
            yield "untold", f"{delivery} is {status} still"
        sent = any(
            call.begin.op == "deliver" and call.type == "ok" and call.begin.value["delivery"] == delivery
            for call in calls
        )
        if status in {"sent", "updated"} and not sent and not _any_unknown(calls, delivery):
            yield "untold", f"{delivery} is {status}, and no channel had it"


def _any_unknown(calls: Sequence[Call], delivery: str) -> bool:
    return any(
        call.begin.op == "deliver" and call.type == "unknown" and call.begin.value["delivery"] == delivery
        for call in calls
    )


def _woken(calls: Sequence[Call], *, drained: bool, patience: float) -> Broken:
    """Nobody is left waiting while the outcome is visible, and no living process waits forever."""
    known = min((call.end.time for call in calls if call.end and _outcome(call)), default=None)
    for call in calls:
        if call.end is None:
            if drained:
                yield "not woken", f"{call.begin.process} has come back from no {call.begin.op}"
        elif call.begin.op == "wait" and known is not None and call.end.error != KILLED:
            late = (call.end.time - max(known, call.begin.time)) / 1e9
            if late > patience and call.type in {"ok", "fail"}:
                yield "not woken", f"{call.begin.process} heard of it {late:.1f} s after others did"
            elif call.type == "fail" and call.end.error == "StillPending" and call.begin.time > known:
                yield "stale read", f"{call.begin.process} was told to wait on after its end was known"


def _outcome(call: Call) -> dict[str, Any] | None:
    """The outcome that a call was told of, if any."""
    value = call.end.value if call.end is not None else None
    if call.begin.op in {
        "ask",
        "answer",
        "vote",
        "decline",
        "send_back",
        "withdraw",
        "read",
        "wait",
    } and isinstance(value, dict):
        told = value.get("outcome") if call.begin.op == "ask" else value
        return told if isinstance(told, dict) and told.get("status") in ENDINGS else None
    return None


def _is_same(given: Any, kept: Any) -> bool:
    """Whether a stored value is the one that was given: of an approval the decision is."""
    return given == kept or (isinstance(kept, dict) and kept.get("decision") == given)


SHOWS_NOTHING = "it shows nothing"
"""The end of the sentence about a run in which too little succeeded."""
