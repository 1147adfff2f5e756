"""A stop of agents: nothing that it covers is asked, approved or executed until it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from handraise.model.forms import Approval
from handraise.model.questions import Draft, Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Somebody stopped a workspace, or an agent, a tool, or a tool of an agent in it; `why` says the reason."""

    workspace: str
    id: str
    agent: str | None = None
    tool: str | None = None
    why: str
    at: datetime
    by: str | None

    @property
    def scope(self) -> str:
        """What it covers, as part of a sentence."""
        parts = [
            None if self.tool is None else f"tool {self.tool!r}",
            None if self.agent is None else f"agent {self.agent!r}",
        ]
        named = " of ".join(filter(None, parts)) or "everything"
        return f"{named} in workspace {self.workspace!r}"

    def covers(self, question: Draft | Question) -> bool:
        """Whether a question, or the approval that it asks for, is stopped."""
        if question.workspace != self.workspace or self.agent not in (None, question.asker):
            return False
        return self.tool is None or self.tool == tool_of(question)


def tool_of(question: Draft | Question) -> str | None:
    """The tool whose use a question asks about, or None if it is no approval."""
    return question.form.action.tool if isinstance(question.form, Approval) else None


def stop_for(stops: Iterable[Stop], question: Draft | Question) -> Stop | None:
    """The oldest of these stops that covers a question, or None."""
    covering = (each for each in stops if each.covers(question))
    return min(covering, key=lambda stop: (stop.at, stop.id), default=None)
