"""What clients did and were told, as lines of JSON that survive the client: one line is one write.

A client writes `invoke` before it calls and one of `ok`, `fail` (it was refused, and nothing was done) and `unknown`
(it may have been done) afterwards. The process that kills a client writes `unknown` for its open calls. So a call
without an end in a finished history is a client that hangs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from handraise import (
    AlreadySettled,
    InvalidAnswer,
    InvalidQuestion,
    KeyConflict,
    NotApproved,
    Outcome,
    PermissionDenied,
    QuestionNotFound,
    StillPending,
)
from handraise.errors import AlreadyConsumed

Type: TypeAlias = Literal["invoke", "ok", "fail", "unknown"]
Op: TypeAlias = Literal[
    "ask",
    "answer",
    "decline",
    "send_back",
    "withdraw",
    "vote",
    "expire",
    "read",
    "wait",
    "consume",
    "deliver",
]
KILLED = "Killed"
EVERY = "*"
"""The key of calls that name no question, such as a sweep."""

REFUSED = (
    AlreadyConsumed,
    AlreadySettled,
    InvalidAnswer,
    InvalidQuestion,
    KeyConflict,
    NotApproved,
    PermissionDenied,
    QuestionNotFound,
    StillPending,
)
"""Errors that say that nothing was done. After any other error that is unknown."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a history. `time` is in nanoseconds, by the one monotonic clock of the host."""

    time: int
    process: str
    type: Type
    op: Op
    question: str
    value: Any = None
    error: str | None = None


class Pen:
    """Writes what one process does into a list or a file; a file has it even if the process is killed next."""

    def __init__(self, place: Path | list[Entry], process: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._place = place if isinstance(place, list) else os.open(place, flags, 0o600)
        self._process = process

    def write(
        self,
        type_: Type,
        op: Op,
        question: str,
        value: Any = None,
        *,
        error: BaseException | str | None = None,
    ) -> None:
        """Add a line."""
        said = type(error).__name__ if isinstance(error, BaseException) else error
        entry = Entry(time.monotonic_ns(), self._process, type_, op, question, value, said)
        if isinstance(self._place, list):
            self._place.append(entry)
        else:
            os.write(self._place, json.dumps(asdict(entry)).encode() + b"\n")

    @contextmanager
    def doing(self, op: Op, question: str, value: Any = None) -> Iterator[Done]:
        """Write a call and its end; an error is written and not raised."""
        done = Done()
        self.write("invoke", op, question, value)
        try:
            yield done
        except REFUSED as error:
            done.error = error
            self.write("fail", op, question, seen(getattr(error, "outcome", None)), error=error)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the checker must know of it
            done.error = error
            self.write("unknown", op, question, error=error)
        else:
            self.write("ok", op, question, done.value)

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._place, int):
            os.close(self._place)


@dataclass(slots=True)
class Done:
    """The result of a call."""

    value: Any = None
    error: Exception | None = None


def seen(outcome: Outcome | None) -> dict[str, Any] | None:
    """An outcome in the words of a history; None is pending."""
    if outcome is None:
        return None
    return {
        "status": outcome.status.value,
        "by": getattr(outcome, "by", None),
        "value": getattr(outcome, "value", None),
        "at": outcome.at.isoformat(),
    }


def read(paths: Iterable[Path]) -> list[Entry]:
    """The lines of several files, in the order of time. A last line that was cut off by a crash is left out."""
    entries: list[Entry] = []
    for path in paths:
        with suppress(FileNotFoundError):
            for line in path.read_text().splitlines():
                try:
                    entries.append(Entry(**json.loads(line)))
                except ValueError:
                    break
    return sorted(entries, key=lambda entry: entry.time)


def under_way(entries: Iterable[Entry]) -> list[Entry]:
    """The calls that have no end."""
    calls: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        place = (entry.process, entry.op, entry.question)
        if entry.type == "invoke":
            calls.setdefault(place, []).append(entry)
        elif begun := calls.get(place):
            begun.pop(0)
    return [entry for begun in calls.values() for entry in begun]
