"""The question that a question replaces, and the one that replaces it, as its page shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from handraise.desk.local_desk import LocalDesk
from handraise.model.errors import QuestionNotFound
from handraise.model.outcomes import Returned
from handraise.model.questions import Question
from handraise.model.thread_messages import messages_of
from handraise.model.visible import visible
from handraise.presentation.markdown import one_line
from handraise.presentation.names import person_name
from handraise.presentation.outcome_text import outcome_text
from handraise.presentation.question_changes import Change, changes_between
from handraise.presentation.translation import gettext
from handraise.server.web.inbox.thread_view import MessageView, thread_of
from handraise.server.web.inbox.value_view import Difference, difference

_MOST_CHANGES = 100
_UNFOLDED = 6
"""How many changes are shown at once, if there are more."""
_EXCERPT = 120

MaySee = Callable[[Question], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """One part that changed. Everything in it may be shown as it is."""

    part: str
    name: str | None
    before: str | None
    after: str | None
    lines: Difference | None
    """What changed in a long text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The question that this one replaces. Everything in it may be shown as it is."""

    href: str
    text: str
    title: str
    reason: str | None
    changes: Sequence[ChangeView]
    more: int
    """How many changes are not shown."""
    messages: Sequence[MessageView]

    @property
    def first(self) -> Sequence[ChangeView]:
        """The changes that are always shown."""
        return self.changes if len(self.changes) <= _UNFOLDED + 2 else self.changes[:_UNFOLDED]

    @property
    def folded(self) -> Sequence[ChangeView]:
        """The changes that are folded."""
        return self.changes[len(self.first) :]


@dataclass(frozen=True, slots=True)
class Later:
    """The question that replaces this one; without a link if this person may not see it."""

    href: str | None = None
    text: str = ""


async def earlier_of(
    desk: LocalDesk, question: Question, may_see: MaySee | None, *, me: str, now: datetime
) -> Earlier | None:
    """What this question replaces; None if nothing, or if this person may not see it."""
    found = await _found(desk, question.replaces, may_see)
    if found is None:
        return None
    changes = changes_between(found, question)
    messages = messages_of(await desk.history(found.id)) if found.thread else ()
    outcome = found.outcome
    return Earlier(
        href=_href(found),
        text=one_line(found.prompt, _EXCERPT),
        title=_title(found, me),
        reason=visible(outcome.reason) if isinstance(outcome, Returned) else None,
        changes=[_change_view(each) for each in changes[:_MOST_CHANGES]],
        more=max(0, len(changes) - _MOST_CHANGES),
        messages=thread_of(found, messages, me=me, now=now).messages,
    )


async def later_of(desk: LocalDesk, question: Question, may_see: MaySee | None) -> Later | None:
    """What replaces this question; None if nothing does."""
    if question.replaced_by is None:
        return None
    found = await _found(desk, question.replaced_by, may_see)
    return Later() if found is None else Later(_href(found), one_line(found.prompt, _EXCERPT))


async def _found(desk: LocalDesk, question_id: str | None, may_see: MaySee | None) -> Question | None:
    if question_id is None or may_see is None:
        return None
    try:
        question = await desk.get(question_id)
    except QuestionNotFound:  # it was erased
        return None
    return question if may_see(question) else None


def _title(earlier: Question, me: str) -> str:
    if isinstance(earlier.outcome, Returned):
        person = person_name(earlier.outcome.by, viewer=me)
        return gettext("This replaces a question that {person} sent back").format(person=person)
    how = outcome_text(earlier, viewer=me)
    return gettext("This replaces an earlier question: {how}").format(how=how)


def _change_view(change: Change) -> ChangeView:
    return ChangeView(
        part=change.part,
        name=change.name,
        before=change.before,
        after=change.after,
        lines=None if change.is_short else difference(change.before, change.after),
    )


def _href(question: Question) -> str:
    return f"/questions/{quote(question.id, safe='')}"
