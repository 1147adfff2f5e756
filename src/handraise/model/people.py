"""Who may answer and who may look: recipients are people, groups or anyone in the workspace; the asker never."""

from __future__ import annotations

from dataclasses import dataclass

from handraise.model.errors import NotEntitled
from handraise.model.forms import Approval
from handraise.model.json_values import text_problem
from handraise.model.questions import Question

GROUP = "group:"
ANYONE = "*"
"""How a store writes that anyone may answer; nobody has this name."""
_LONGEST = 200

CLIENT_ASSERTED = "client-asserted"
"""The least evidence of a person: a program in between says that it was them."""
EMAIL_SENDER = "email-sender"
"""Little evidence of a person: a mail says that it is from them, and goes to an address that only they were told."""
SIGNED_LINK = "signed-link"
"""Some evidence of a person: whoever came had a link that only they were given."""
_WEAK = {
    CLIENT_ASSERTED: "only a program in between says that it was them",
    "webhook-signature": "only a system in between says that it was them",
    EMAIL_SENDER: "only the sender of an e-mail says that it was them",
    SIGNED_LINK: "whoever has the link could be them",
    "telegram-secret": "only Telegram says that it was them, and signs nothing",
    "telegram-poll": "only Telegram says that it was them, and signs nothing",
    "teams-token": "what comes from Teams is not signed",
}
"""What is too little where the stakes are high, and why."""


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
    audience = question.audience
    return not audience or any(name in audience for name in responder.principals)


def check_may_respond(question: Question, responder: Responder) -> None:
    """Raise `NotEntitled` unless this person may answer or decline this question."""
    if responder.id == question.asker:
        raise NotEntitled(responder.id, "whoever asks cannot answer")
    if not may_respond(question, responder):
        raise NotEntitled(responder.id, "the question is addressed to others")


def may_see(question: Question, responder: Responder) -> bool:
    """Whether a question is this person's to answer, or was: who answered, declined or voted sees it still."""
    return (
        may_respond(question, responder)
        or getattr(question.outcome, "by", None) == responder.id
        or any(vote.by == responder.id for vote in question.votes)
    )


def check_evidence(question: Question, responder: Responder, evidence: str | None) -> None:
    """Raise `NotEntitled` where the evidence of a person is too little for what is at stake."""
    form = question.form
    if isinstance(form, Approval) and form.risk == "high" and evidence in _WEAK:
        raise NotEntitled(
            responder.id,
            f"the action is of high risk, and {_WEAK[evidence]}: decide in the inbox or in the terminal",
        )
