"""The rules of a question once more, in as few lines as they take: what any desk must do, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Asked:
    """A question; `steps` are (hour, deed, to whom), and a definition is what two posts with one key compare."""

    definition: dict[str, Any]
    steps: tuple[tuple[int, str, str], ...]
    since: int
    status: str = "pending"
    how: tuple[Any, ...] = ()
    attempts: int = 0
    taken: int = 0
    stepped: int = 0
    votes: dict[str, Any] = field(default_factory=dict)
    saw: dict[str, int] = field(default_factory=dict)
    """How many messages each approving vote covers."""
    used: bool = False
    reported: bool = False
    thread: int = 0
    asked_back: bool = False
    replied: int = 0
    events: list[str] = field(default_factory=lambda: ["asked"])

    def end(self, status: str, *how: Any) -> str:
        self.status, self.how = status, how
        self.events.append(status)
        return status


class Reference:
    """What was asked, by its key, and how it stands."""

    def __init__(self) -> None:
        self.now = 0
        self.asked: dict[str, Asked] = {}

    def post(self, key: str, definition: dict[str, Any], steps: tuple[tuple[int, str, str], ...]) -> str:
        known = self.asked.setdefault(key, Asked(definition, steps, self.now))
        return known.status if known.definition == definition else "KeyConflict"

    def may(self, q: Asked, who: str) -> bool:
        told = {*q.definition["recipients"], *(to for _, _, to in q.steps[: q.taken])} - {""}
        return who != "agent" and (not q.definition["recipients"] or who in told)

    def move(self, key: str, who: str, value: Any, *, fits: bool = True, saw: int = 0) -> str:
        """Answer after reading so many messages, or decline with None."""
        q = self.asked[key]
        quorum, veto, most = (q.definition[each] for each in ("quorum", "veto", "max_attempts"))
        if not self.may(q, who):
            return "PermissionDenied"
        if q.status != "pending":
            return "AlreadySettled"
        if not fits:
            q.attempts += 1
            if most and q.attempts >= most:
                return q.end("exhausted", who)
            q.events.append("attempted")
            return "InvalidAnswer"
        ending = "declined" if value is None else "answered"
        approves = q.definition["approval"] and value == "approve"
        if approves and saw != q.thread:
            return "ThreadMoved"
        if quorum > 1:
            for voter in [each for each, covered in q.saw.items() if covered < q.replied]:
                del q.votes[voter], q.saw[voter]
            q.votes[who] = value
            q.saw.pop(who, None)
            if approves:
                q.saw[who] = saw
            agreed = list(q.votes.values()).count(value) >= quorum
            if not agreed and not (veto and value in (None, "deny")):
                q.events.append("voted")
                return "pending"
        return q.end(ending, who, value)

    def write(self, key: str, who: str, kind: str) -> str:
        """Ask back, or note something."""
        q = self.asked[key]
        if not self.may(q, who):
            return "PermissionDenied"
        if q.status != "pending":
            return "AlreadySettled"
        q.thread += 1
        q.asked_back = q.asked_back or kind == "asked_back"
        q.events.append(kind)
        return "pending"

    def reply(self, key: str) -> str:
        q = self.asked[key]
        if q.status != "pending":
            return "AlreadySettled"
        if not q.asked_back:
            return "NothingToReply"
        q.thread += 1
        q.asked_back, q.replied = False, q.thread
        q.events.append("replied")
        return "pending"

    def report(self, key: str) -> str:
        q = self.asked[key]
        if q.status != "answered" or (q.definition["approval"] and not q.used):
            return "NothingToReport"
        if not q.reported:
            q.reported = True
            q.events.append("reported")
        return q.status

    def withdraw(self, key: str) -> str:
        q = self.asked[key]
        return "AlreadySettled" if q.status != "pending" else q.end("withdrawn", "agent")

    def consume(self, key: str) -> str:
        q = self.asked[key]
        if q.status != "answered" or q.how[1] != "approve":
            return "NotApproved"
        if q.used:
            return "AlreadyConsumed"
        q.used = True
        q.events.append("consumed")
        return "consumed"

    def due(self, q: Asked) -> float:
        """In which hour the next deed is due: as planned, or ten minutes behind one that came late."""
        planned = q.since + q.steps[q.taken][0]
        gap = q.steps[q.taken][0] - q.steps[q.taken - 1][0]
        return max(planned, q.stepped + min(gap, 1 / 6)) if q.taken else planned

    def end_of(self, q: Asked) -> float:
        """In which hour the timeline ends the question, if it does."""
        if not q.steps or q.steps[-1][1] not in ("expire", "default"):
            return float("inf")
        gaps = (min(later[0] - step[0], 1 / 6) for step, later in pairwise(q.steps[max(0, q.taken - 1) :]))
        planned = q.since + q.steps[-1][0]
        return max(planned, q.stepped + sum(gaps)) if q.taken else planned

    def pass_time(self, hours: int) -> None:
        self.now += hours
        for q in self.asked.values():
            if q.status == "pending" and q.asked_back:  # only the end comes then
                if self.end_of(q) <= self.now:
                    q.end("expired") if q.steps[-1][1] == "expire" else q.end("answered", None, "a")
                continue
            while q.status == "pending" and q.taken < len(q.steps) and self.due(q) <= self.now:
                deed = q.steps[q.taken][1]
                q.taken, q.stepped = q.taken + 1, self.now
                if deed == "expire":
                    q.end("expired")
                elif deed == "default":
                    q.end("answered", None, "a")
                else:
                    q.events.append({"remind": "reminded", "escalate": "escalated"}[deed])
