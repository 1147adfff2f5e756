"""What a tool call emits while it waits: the event for a user interface, and the interrupt for an executor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from handraise import Approval, Choice, MultiChoice, Option, Question
from handraise.forms import Brief
from handraise.model.json_values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AskEvent:
    """What to show to people: a stored question, ready to be shown.

    The same event may come again after a restart or for an equal call; then `question_id` is the same. `kind`
    is the kind of its form. `brief` is what the agent says about an action, and `replaces` the id of the question that it
    asks again, changed.
    """

    question_id: str
    agent: str
    prompt: str = field(repr=False)
    options: tuple[Option, ...] = field(repr=False)
    context: Json = field(repr=False)
    kind: str
    tool: str
    conversation: str
    call_id: str | None
    brief: Brief | None = field(default=None, repr=False)
    replaces: str | None = None


Emit = Callable[[AskEvent], Awaitable[None] | None]
"""Shows an event to people, and raises if it cannot."""


class Interrupt(Exception):
    """A tool call that waits for people: raise it or return it, park, and resume with `question_ids`.

    `events` holds what to show, one for each question.
    """

    def __init__(
        self, tool: str, conversation: str, call_id: str | None, events: tuple[AskEvent, ...]
    ) -> None:
        self.tool = tool
        self.conversation = conversation
        self.call_id = call_id
        self.events = events
        super().__init__(tool, conversation, call_id, events)

    def __str__(self) -> str:
        return f"{self.tool} waits for {', '.join(self.question_ids)}; resume it with these ids."

    @property
    def question_ids(self) -> tuple[str, ...]:
        """What `resume` needs, in the order of the questions."""
        return tuple(event.question_id for event in self.events)


def event_of(question: Question, *, tool: str, conversation: str, call_id: str | None) -> AskEvent:
    """The event that shows a stored question for this call."""
    form = question.form
    return AskEvent(
        question_id=question.id,
        agent=question.asker,
        prompt=question.prompt,
        options=form.options if isinstance(form, (Choice, MultiChoice)) else (),
        context=question.context,
        kind=form.kind,
        tool=tool,
        conversation=conversation,
        call_id=call_id,
        brief=form.brief if isinstance(form, Approval) else None,
        replaces=question.replaces,
    )
