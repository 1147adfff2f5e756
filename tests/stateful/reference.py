"""The rules of a question once more, in as few lines as they take: what any desk must do, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    used: bool = False
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

    def move(self, key: str, who: str, value: Any, *, fits: bool = True) -> str:
        """Answer, or decline with None."""
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
        if quorum > 1:
            q.votes[who] = value
            agreed = list(q.votes.values()).count(value) >= quorum
            if not agreed and not (veto and value in (None, "deny")):
                q.events.append("voted")
                return "pending"
        return q.end(ending, who, value)

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

    def pass_time(self, hours: int) -> None:
        self.now += hours
        for q in self.asked.values():
            while q.status == "pending" and q.taken < len(q.steps) and self.due(q) <= self.now:
                deed = q.steps[q.taken][1]
                q.taken, q.stepped = q.taken + 1, self.now
                if deed == "expire":
                    q.end("expired")
                elif deed == "default":
                    q.end("answered", None, "a")
                else:
                    q.events.append({"remind": "reminded", "escalate": "escalated"}[deed])
