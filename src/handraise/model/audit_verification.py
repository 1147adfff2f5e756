"""Verify an export of the audit trail. Only the file and the public keys are needed.

An export is a file of JSON lines: `export`, then each `seal` with the `event` and `removal` lines that it
covers, then a `question` for each row, then removals that no seal covers yet, then `end`.
`handraise.desk.audit_export` writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from handraise.model.json_values import Json, canonical_json
from handraise.model.passkey_replay import PasskeyReplay
from handraise.model.passkey_signatures import CheckProof
from handraise.model.replay import QuestionReplay
from handraise.model.seals import (
    NOTHING_BEFORE,
    HeadMark,
    Seal,
    event_leaf,
    instant_text,
    removal_leaf,
)
from handraise.model.witnesses import WITHIN, ChainHead, Witness, WitnessComparison

FORMAT = 2
_END, _ROW, _ROWS = b"\x04", b"\x05", b"\x06"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A public key, and the seals that it may have signed: from `first` to `last`, or to the end."""

    key_id: str
    has_signed: Callable[[bytes, bytes], bool]
    first: int = 1
    last: int | None = None

    def covers(self, number: int) -> bool:
        """Whether it may have signed the seal with this number."""
        return self.first <= number and (self.last is None or number <= self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first thing that is wrong with an export, and its place."""

    why: str
    line: int
    seal: int | None = None
    cursor: str | None = None
    question_id: str | None = None

    def __str__(self) -> str:
        place = [f"line {self.line}"]
        place += [] if self.seal is None else [f"seal {self.seal}"]
        place += [] if self.cursor is None else [f"event {self.cursor}"]
        place += [] if self.question_id is None else [f"question {self.question_id}"]
        return f"{', '.join(place)}: {self.why}"


@dataclass(slots=True)
class Verdict:
    """The result of verifying an export; it is valid if there is no `fault`."""

    fault: Fault | None = None
    workspace: str = ""
    first: int = 0
    last: int = 0
    events: int = 0
    erased: int = 0
    removed: int = 0
    unsealed: int = 0
    """Removals that no seal covers yet."""
    questions: int = 0
    """Questions whose row agrees with their events."""
    signed_decisions: int = 0
    """Decisions that a passkey signed."""
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The first and the last seal that each key signed."""
    unsigned: int = 0
    head: bytes = b""
    exported_at: str = ""
    end_signed: bool = False
    witnesses: Sequence[Witness] = ()
    unseen_from: int | None = None
    """The first seal that no witness saw, itself or through a later one."""


def seal_line(seal: Seal) -> dict[str, Json]:
    """A seal as a line of an export."""
    return {
        "type": "seal",
        "number": seal.number,
        "oldest": seal.oldest,
        "previous": seal.previous.hex(),
        "sealed_at": instant_text(seal.sealed_at),
        "cursor": seal.cursor,
        "cursors": list(seal.cursors),
        "leaves": [leaf.hex() for leaf in seal.leaves],
        "key_id": seal.key_id,
        "digest": seal.digest.hex(),
        "signature": None if seal.signature is None else seal.signature.hex(),
    }


def end_digest(line: dict[str, Json]) -> bytes:
    """The bytes that are signed for the last line."""
    body = {name: value for name, value in line.items() if name != "signature"}
    return hashlib.sha256(_END + canonical_json(body).encode()).digest()


def row_digest(line: dict[str, Any]) -> bytes:
    """The digest of a line of type `question`."""
    return hashlib.sha256(_ROW + canonical_json(line).encode()).digest()


def rows_digest(rows: Iterable[bytes]) -> bytes:
    """The digest over all questions, which the last line holds."""
    return hashlib.sha256(_ROWS + b"".join(rows)).digest()


def verify(
    read: Callable[[], Iterable[str]],
    *,
    keys: Sequence[TrustedKey] = (),
    known: Sequence[HeadMark] = (),
    unsigned: bool = False,
    unsigned_before: int = 1,
    witnesses: Sequence[Witness] = (),
    witness_within: timedelta = WITHIN,
    witness_since: datetime | None = None,
    check_passkey: CheckProof | None = None,
) -> Verdict:
    """Verify an export. `read` returns its lines and may be called several times.

    Every seal must be signed by one of `keys`, except for those with a number below `unsigned_before`. The
    keys are in the order in which they were used: each replaced the one before, and the end must be signed by
    the last. `known` are seals that must be in it. `unsigned` accepts a chain that nobody has signed. What
    `witnesses` saw is compared; see `WitnessComparison`. `check_passkey` checks what passkeys signed.
    """
    verdict = Verdict(witnesses=witnesses)
    trusted = {key.key_id: key for key in keys}

    def has_signed(head: ChainHead) -> bool:
        key = trusted.get(head.key_id or "")
        return key is not None and key.has_signed(head.digest, head.signature or b"")

    comparison = WitnessComparison(
        witnesses, within=witness_within, since=witness_since, has_signed=has_signed
    )
    try:
        gone = _gone(read())
        _Checking(
            verdict,
            keys,
            gone,
            known,
            comparison,
            unsigned=unsigned,
            unsigned_before=unsigned_before,
            check_passkey=check_passkey,
        ).run(read())
    except _Wrong as wrong:
        verdict.fault = wrong.fault
    return verdict


class _Wrong(Exception):
    def __init__(self, why: str, line: int, **where: Any) -> None:
        super().__init__(why)
        self.fault = Fault(why=why, line=line, **where)


@dataclass(slots=True)
class _Batch:
    """A seal with the lines that follow it."""

    line: int
    seal: Seal
    stated: bytes
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    removals: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


class _Checking:
    def __init__(
        self,
        verdict: Verdict,
        keys: Sequence[TrustedKey],
        gone: dict[str, str],
        known: Sequence[HeadMark],
        comparison: WitnessComparison,
        *,
        unsigned: bool,
        unsigned_before: int,
        check_passkey: CheckProof | None,
    ) -> None:
        self._verdict = verdict
        self._keys = {key.key_id: (place, key) for place, key in enumerate(keys)}
        self._newest = keys[-1] if keys else None
        self._place = 0
        self._gone = gone
        self._known = {mark.number: mark.digest for mark in known}
        self._comparison = comparison
        self._is_known = bool(known or comparison.witnesses)
        self._content_unsigned = unsigned
        self._unsigned_before = unsigned_before
        self._batch: _Batch | None = None
        self._last: Seal | None = None
        self._ended = False
        self._loose: list[str] = []
        self._removed: set[str] = set()
        self._passkeys = PasskeyReplay(check_passkey)
        self._began_at = 0
        self._lives: dict[str, QuestionReplay] = {}
        self._rows: dict[str, tuple[int, dict[str, Any]]] = {}

    def run(self, lines: Iterable[str]) -> None:
        number = 0
        for number, line in _parsed(lines):
            if self._ended:
                raise _Wrong("there are more lines after the end", number)
            kind = line.get("type")
            if (number == 1) != (kind == "export"):
                raise _Wrong("an export does not begin like this", number)
            try:
                self._take(kind, number, line)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise _Wrong(f"this line cannot be read: {error!r}", number) from error
        if not self._ended:
            raise _Wrong("the end is missing: the export was cut off, or never finished", number + 1)

    def _take(self, kind: Any, number: int, line: dict[str, Any]) -> None:
        match kind:
            case "export":
                if line["format"] != FORMAT:
                    raise _Wrong(f"this is format {line['format']}, and {FORMAT} is known here", number)
                self._verdict.workspace = line["workspace"]
            case "seal" if not self._rows and not self._loose:
                self._close()
                self._batch = _Batch(number, self._seal(line), bytes.fromhex(line["digest"]))
                self._began_at = self._began_at or self._batch.seal.number
            case "event" if self._batch and not self._rows and not self._loose:
                self._batch.events.append((number, line))
            case "question" if not self._loose:
                self._close()
                self._rows[line["record"]["question"]] = (number, line)
            case "removal" if line["sealed"] is False:
                self._close()
                self._removed.add(line["record"]["question"])
                self._loose.append(removal_leaf(line["record"]).hex())
                self._verdict.unsealed += 1
            case "removal" if self._batch and not self._rows and not self._loose:
                self._batch.removals.append((number, line))
            case "end":
                self._close()
                self._end(number, line)
            case _:
                raise _Wrong(f"a line of type {kind!r} does not belong here", number)

    def _seal(self, line: dict[str, Any]) -> Seal:
        return Seal(
            workspace=self._verdict.workspace,
            number=int(line["number"]),
            oldest=int(line["oldest"]),
            previous=bytes.fromhex(line["previous"]),
            sealed_at=datetime.fromisoformat(line["sealed_at"]),
            cursor=line["cursor"],
            cursors=tuple(line["cursors"]),
            leaves=tuple(bytes.fromhex(leaf) for leaf in line["leaves"]),
            key_id=line["key_id"],
            signature=None if line["signature"] is None else bytes.fromhex(line["signature"]),
        )

    def _close(self) -> None:
        """Check a seal and all that it covers."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        self._check_events(batch)
        self._check_removals(batch)
        self._check_seal(batch)
        self._last = batch.seal

    def _check_events(self, batch: _Batch) -> None:
        seal, passed = batch.seal, 0
        places = {cursor: place for place, cursor in enumerate(seal.cursors)}
        for number, line in batch.events:
            record, salt = line["record"], bytes.fromhex(line["salt"])
            where = {"line": number, "seal": seal.number, "cursor": record["cursor"]}
            where["question_id"] = record["question"]
            place = places.get(record["cursor"])
            if place is None:
                raise _Wrong("this event did not exist when the seal was made", **where)
            if place < passed:
                raise _Wrong("this event is in the wrong place, or there twice", **where)
            for cursor in seal.cursors[passed:place]:
                self._count_gone(batch, cursor, number)
            passed = place + 1
            if place >= len(seal.leaves) or event_leaf(salt, record) != seal.leaves[place]:
                raise _Wrong("this event was changed after it was sealed", **where)
            if record["workspace"] != self._verdict.workspace:
                raise _Wrong("this event belongs to another workspace", **where)
            self._verdict.events += 1
            self._check_passkeys(record, where, is_complete=not self._gone and self._began_at == 1)
            if record["question"]:
                self._lives.setdefault(record["question"], QuestionReplay()).take(record, number)
        for cursor in seal.cursors[passed:]:
            self._count_gone(batch, cursor, batch.line + len(batch.events) + 1)

    def _check_passkeys(self, record: dict[str, Any], where: dict[str, Any], *, is_complete: bool) -> None:
        if why := self._passkeys.find_fault(record, is_complete=is_complete):
            raise _Wrong(why, **where)
        self._verdict.signed_decisions = self._passkeys.signed

    def _count_gone(self, batch: _Batch, cursor: str, line: int) -> None:
        what = self._gone.get(cursor)
        if what is None:
            raise _Wrong(
                "this event was sealed and is missing, and no removal accounts for it",
                line,
                seal=batch.seal.number,
                cursor=cursor,
            )
        if what == "erased":
            self._verdict.erased += 1
        else:
            self._verdict.removed += 1

    def _check_removals(self, batch: _Batch) -> None:
        seal = batch.seal
        leaves = seal.leaves[len(seal.cursors) :]
        for place, (number, line) in enumerate(batch.removals):
            where = {"line": number, "seal": seal.number, "question_id": line["record"]["question"]}
            if place >= len(leaves):
                raise _Wrong("this removal did not exist when the seal was made", **where)
            if removal_leaf(line["record"]) != leaves[place]:
                raise _Wrong("this removal was changed after it was sealed", **where)
        if len(batch.removals) < len(leaves):
            raise _Wrong(
                "a removal that was sealed is missing", batch.line + len(batch.events) + 1, seal=seal.number
            )

    def _check_seal(self, batch: _Batch) -> None:
        seal, last, verdict = batch.seal, self._last, self._verdict
        where: dict[str, Any] = {"line": batch.line, "seal": seal.number}
        where["cursor"] = seal.cursors[0] if seal.cursors else None
        digest = seal.digest
        if digest != batch.stated:
            raise _Wrong("the seal was changed, or one of its events together with its digest", **where)
        if last is None:
            verdict.first = seal.number
            if seal.number == 1 and seal.previous != NOTHING_BEFORE:
                raise _Wrong("the first seal says that there was one before", **where)
        elif seal.number != last.number + 1:
            raise _Wrong(f"seal {last.number + 1} is missing", **where)
        elif seal.previous != last.digest:
            raise _Wrong("the seal does not follow the one before, which was changed or replaced", **where)
        if seal.oldest > seal.number or (last is not None and seal.oldest < last.oldest):
            raise _Wrong("the seal does not state correctly which seals were kept", **where)
        if (known := self._known.get(seal.number, digest)) != digest:
            raise _Wrong(f"this is not the seal that is known, {seal.number}:{known.hex()}", **where)
        self._check_signature(seal, digest, where)
        if why := self._comparison.take(seal, digest, [line["record"] for _, line in batch.events]):
            raise _Wrong(why, **where)
        verdict.last, verdict.head = seal.number, digest

    def _check_signature(self, seal: Seal, digest: bytes, where: dict[str, Any]) -> None:
        keys = self._verdict.keys
        if seal.key_id is None or seal.signature is None:
            if keys:
                raise _Wrong("the seal is not signed, and one before it is", **where)
            self._verdict.unsigned += 1
            return
        if not self._keys:
            raise _Wrong(f"the seal is signed with the key {seal.key_id}: give its public key", **where)
        if seal.key_id not in self._keys:
            raise _Wrong(f"the seal is signed with the key {seal.key_id}, which was not given", **where)
        place, key = self._keys[seal.key_id]
        if not key.has_signed(digest, seal.signature):
            raise _Wrong("the signature of the seal is not valid", **where)
        if not key.covers(seal.number):
            raise _Wrong(f"the seal is signed with the key {seal.key_id}, which was not in use then", **where)
        if place < self._place:
            raise _Wrong(
                f"the seal is signed with the key {seal.key_id}, which had been replaced. Give keys in the order in which "
                "they were used",
                **where,
            )
        self._place = place
        if not keys and self._verdict.unsigned and seal.number > self._unsigned_before:
            raise _Wrong(
                "nobody signed the seals before this one, so anyone who could write to the store could have made them. If there "
                f"was no key before it, say so with --allow-unsigned-before {seal.number}",
                **where,
            )
        keys[seal.key_id] = (keys.get(seal.key_id, (seal.number,))[0], seal.number)

    def _end(self, number: int, line: dict[str, Any]) -> None:
        verdict, last = self._verdict, self._last
        self._ended = True
        verdict.exported_at = line["exported_at"]
        stated = (line["workspace"], line["seals"], line["events"], line["head"], line["loose"], line["rows"])
        found = (
            verdict.workspace,
            0 if last is None else verdict.last - verdict.first + 1,
            verdict.events,
            verdict.head.hex(),
            self._loose,
            rows_digest(row_digest(row) for _, row in self._rows.values()).hex(),
        )
        if stated != found:
            raise _Wrong("the end does not fit what is before it: something was cut off or added", number)
        if last is not None and verdict.first > last.oldest:
            raise _Wrong(f"seals {last.oldest} to {verdict.first - 1} were cut off at the beginning", number)
        if missing := [each for each in self._known if not verdict.first <= each <= verdict.last]:
            raise _Wrong(f"seal {missing[0]} is known and not here: seals were cut off", number)
        if why := self._comparison.finish(last, datetime.fromisoformat(verdict.exported_at)):
            raise _Wrong(why, number)
        verdict.unseen_from = self._comparison.unseen_from
        if last is None:
            return
        self._check_end(number, line)
        self._check_lives(number)

    def _check_lives(self, end: int) -> None:
        """Replay what happened to each question, and compare with its row."""
        for question, life in self._lives.items():
            if question not in self._rows:
                if question in self._removed:
                    continue  # it was removed during the export
                raise _Wrong("the question has events and no row", end, question_id=question)
            number, line = self._rows[question]
            for record in line["later"]:
                life.take(record, number)
                # The passkey may have been added just now, too.
                self._check_passkeys(record, {"line": number, "question_id": question}, is_complete=False)
            if found := life.find_inconsistency(line["record"]):
                where: dict[str, Any] = {"cursor": found.cursor, "question_id": question}
                raise _Wrong(found.why, found.place or number, **where)
            self._verdict.questions += 1
        if more := next((each for each in self._rows if each not in self._lives), None):
            raise _Wrong("the question has a row and no events", self._rows[more][0], question_id=more)

    def _check_end(self, number: int, line: dict[str, Any]) -> None:
        verdict = self._verdict
        if not verdict.keys:
            if not (self._content_unsigned or self._is_known):
                raise _Wrong(
                    "nothing here is signed: anyone who could write to the store could have made all of it. If that is "
                    "enough, pass --unsigned, or give a seal that you know with --head, or what a --witness saw",
                    number,
                )
            if self._keys and not self._content_unsigned:
                raise _Wrong("keys were given, and nothing here is signed", number)
            return
        if line["signature"] is None:
            if self._loose or not self._is_known:
                raise _Wrong(
                    "the end is not signed, so nobody can tell whether seals were cut off there. Export with "
                    "HANDRAISE_AUDIT_KEY set, or give a seal that you know with --head, or what a --witness saw",
                    number,
                )
            if verdict.last not in self._known:
                self._check_newest(next(reversed(verdict.keys)), "the last seal", number)
            return
        _, key = self._keys.get(line["key_id"], (0, None))
        if key is None or not key.has_signed(end_digest(line), bytes.fromhex(line["signature"])):
            raise _Wrong("the signature of the end is not valid: something was cut off or added", number)
        self._check_newest(key.key_id, "the end", number)
        verdict.end_signed = True

    def _check_newest(self, key_id: str, what: str, number: int) -> None:
        """Reject an end that is signed with a replaced key: later seals could have been cut off."""
        if self._newest is not None and key_id != self._newest.key_id:
            raise _Wrong(
                f"{what} is signed with the key {key_id}, and {self._newest.key_id} replaced it. If it had not yet, when this was "
                "exported, leave the newer key out",
                number,
            )


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            raise _Wrong("this line is not JSON: it was cut off or changed", number) from None
        if not isinstance(line, dict):
            raise _Wrong("this line is not an object", number)
        yield number, line


def _gone(lines: Iterable[str]) -> dict[str, str]:
    """The events that removals account for, and what happened to them. Each is checked later, with its seal."""
    gone: dict[str, str] = {}
    for _, line in _parsed(lines):
        record = line.get("record")
        if line.get("type") == "removal" and isinstance(record, dict):
            cursors = record.get("cursors")
            if isinstance(cursors, list):
                gone.update({str(cursor): str(record.get("what")) for cursor in cursors})
    return gone
