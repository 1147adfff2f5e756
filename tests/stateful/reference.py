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
    saw: dict[str, int] = field(default_factory=dict)
    """How many messages each approving vote covers."""
    used: bool = False
    reported: bool = False
    thread: int = 0
    asked_back: bool = False
    replied: int = 0
    taker: tuple[str, int] | None = None
    """Who took it last, and in which hour: it counts for ten minutes of it."""
    added: list[str] = field(default_factory=list)
    aside: dict[str, int | None] = field(default_factory=dict)
    """Who has set it aside, and until which hour; None is for good."""
    replaced: bool = False
    events: list[str] = field(default_factory=lambda: ["asked"])

    def end(self, status: str, *how: Any) -> str:
        self.status, self.how = status, how
        self.events.append(status)
        return status


RETURNED = "sent back"
"""What a person who sends a question back votes for."""


class Reference:
    """What was asked, by its key, and how it stands."""

    def __init__(self) -> None:
        self.now = 0
        self.asked: dict[str, Asked] = {}

    def post(self, key: str, definition: dict[str, Any], steps: tuple[tuple[int, str, str], ...]) -> str:
        known = self.asked.setdefault(key, Asked(definition, steps, self.now))
        return known.status if known.definition == definition else "KeyConflict"

    def may(self, q: Asked, who: str) -> bool:
        told = {*q.definition["recipients"], *q.added, *(to for _, _, to in q.steps[: q.taken])} - {""}
        return who != "agent" and (not q.definition["recipients"] or who in told)

    def move(self, key: str, who: str, value: Any, *, fits: bool = True, saw: int = 0) -> str:
        """Answer after reading so many messages, decline with None, or send it back with `RETURNED`."""
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
        ending = {None: "declined", RETURNED: "returned"}.get(value, "answered")
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
            if not agreed and not (veto and value in (None, RETURNED, "deny")):
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

    def share(self, key: str, who: str, verb: str, hours: int | None = None) -> str:
        """Take it, release it, bring cleo in, hand it over to her, set it aside for so long or for good, or put it back."""
        q = self.asked[key]
        if not self.may(q, who):
            return "PermissionDenied"
        if q.status != "pending":
            return "AlreadySettled"
        if verb == "hand_over" and who == "cleo":
            return "CannotShare"  # nobody hands anything over to themselves
        event = {"take": "taken", "release": "released", "bring_in": "brought_in", "hand_over": "handed_over"}
        taker = q.taker[0] if q.taker and q.taker[1] == self.now else None
        if verb == "take" and taker not in (None, who):
            return "AlreadyTaken"
        if (verb == "release" and taker != who) or (verb == "put_back" and who not in q.aside):
            return "pending"
        q.events.append(event.get(verb, verb))
        if verb == "take":
            q.taker = (who, self.now)
        if verb == "release" or (verb == "hand_over" and q.taker and q.taker[0] == who):
            q.taker = None
        if verb in ("bring_in", "hand_over") and "cleo" not in q.added:
            q.added.append("cleo")
        if verb in ("set_aside", "hand_over"):
            q.aside[who] = None if hours is None or verb == "hand_over" else self.now + hours
        if verb == "put_back":
            del q.aside[who]
        return "pending"

    def is_aside(self, q: Asked, who: str) -> bool:
        """Whether a person does not have it in their inbox now."""
        until = q.aside.get(who, 0)
        return until is None or until > self.now

    def replace(self, key: str, old: str, definition: dict[str, Any]) -> str:
        """Ask another question instead of an old one."""
        q = self.asked[old]
        if q.replaced:
            return "InvalidQuestion"
        q.replaced = True
        if q.status == "pending":
            q.end("withdrawn", "agent")
        else:
            q.events.append("replaced")
        return self.post(key, {**definition, "replaces": old}, ())

    def reply(self, key: str) -> str:
        q = self.asked[key]
        if q.status != "pending":
            return "AlreadySettled"
        if not q.asked_back:
            return "NothingToReply"
        q.thread += 1
        q.asked_back, q.replied = False, q.thread
        q.events.append("replied")
        self.take_steps(q)  # what had paused is due, and the next reader of the question finds it done
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
        """In which hour the next deed is due: as planned, or ten minutes behind one that came late, but not behind the end."""
        planned = q.since + q.steps[q.taken][0]
        gap = q.steps[q.taken][0] - q.steps[q.taken - 1][0]
        return min(max(planned, q.stepped + min(gap, 1 / 6)), self.end_of(q)) if q.taken else planned

    def end_of(self, q: Asked) -> float:
        """In which hour the timeline ends the question, if it does."""
        if not q.steps or q.steps[-1][1] not in ("expire", "default"):
            return float("inf")
        return q.since + q.steps[-1][0]

    def pass_time(self, hours: int) -> None:
        self.now += hours
        for q in self.asked.values():
            if q.status == "pending" and q.asked_back:  # only the end comes then
                if self.end_of(q) <= self.now:
                    q.end("expired") if q.steps[-1][1] == "expire" else q.end("answered", None, "a")
                continue
            self.take_steps(q)

    def take_steps(self, q: Asked) -> None:
        """Do what is due."""
        while q.status == "pending" and q.taken < len(q.steps) and self.due(q) <= self.now:
            deed = q.steps[-1 if self.end_of(q) <= self.now else q.taken][1]
            if deed == "expire":
                q.end("expired")
            elif deed == "default":
                q.end("answered", None, "a")
            else:
                q.taken, q.stepped = q.taken + 1, self.now
                q.events.append({"remind": "reminded", "escalate": "escalated"}[deed])
