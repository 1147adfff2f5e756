"""Who may answer: recipients are people, groups or anyone in the workspace; the asker never."""

from __future__ import annotations

from dataclasses import dataclass

from handraise.model.errors import NotEntitled
from handraise.model.json_values import text_problem
from handraise.model.questions import Question

GROUP = "group:"
ANYONE = "*"
"""How a store writes that anyone may answer; nobody has this name."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Responder:
    """A person at a channel's door, with the groups that the caller vouches for."""

    id: str
    groups: frozenset[str] = frozenset()

    @property
    def principals(self) -> tuple[str, ...]:
        """The names under which this person may be a recipient."""
        return (self.id, *sorted(GROUP + group for group in self.groups))


def responder_of(by: str | Responder) -> Responder:
    """The responder, refusing names that could pass for something else."""
    responder = Responder(by) if isinstance(by, str) else by
    if not responder.id.strip():
        raise NotEntitled(responder.id, "an answer needs the name of the person who gives it")
    if responder.id == ANYONE:
        raise NotEntitled(responder.id, "that stands for anyone, and only somebody can answer")
    if responder.id.startswith(GROUP):
        raise NotEntitled(responder.id, "a group cannot answer, only one of its people can")
    for name in (responder.id, *responder.groups):
        if len(name) > _LONGEST or text_problem(name):
            raise NotEntitled(responder.id[:_LONGEST], "that is not a name a person could have")
    return responder


def may_respond(question: Question, responder: Responder) -> bool:
    """Whether this person may answer or decline this question."""
    if responder.id == question.asker:
        return False
    return not question.audience or not set(question.audience).isdisjoint(responder.principals)


def check_may_respond(question: Question, responder: Responder) -> None:
    """Raise `NotEntitled` unless this person may answer or decline this question."""
    if responder.id == question.asker:
        raise NotEntitled(responder.id, "whoever asks cannot answer")
    if not may_respond(question, responder):
        raise NotEntitled(responder.id, "the question is addressed to others")
