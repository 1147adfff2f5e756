"""Which people must be among those who agree, and which of them are still missing, in words."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.model.people import GROUP
from handraise.model.questions import Draft, Need, Question
from handraise.presentation.names import display_name, listed, recipient_name
from handraise.presentation.translation import gettext, ngettext


def required_people(draft: Draft) -> str | None:
    """Who must be among those who agree, after "among them"; None if anybody may be."""
    return (
        _in_order(draft.needs, _shown(draft.needs, [need.count for need in draft.needs]))
        if draft.needs
        else None
    )


def missing_people(question: Question) -> str | None:
    """Who is still missing, after "still needed"; None if it has ended or nobody in particular is missing."""
    if question.outcome is not None or not question.needs:
        return None
    missing = question.missing or [need.count for need in question.needs]
    return _in_order(question.needs, _shown(question.needs, missing)) if any(missing) else None


def still_needed(question: Question) -> str | None:
    """The sentence that says who is still missing, or None."""
    people = missing_people(question)
    return None if people is None else gettext("Still needed: {people}.").format(people=people)


def _shown(needs: Sequence[Need], counts: Sequence[int]) -> Sequence[int]:
    """The same counts, with 0 for a need that others say already.

    A rule that wants somebody of each group also counts several groups together, so that nobody counts twice. That is said
    only if nobody of the single groups is missing.
    """
    shown = []
    for place, (need, count) in enumerate(zip(needs, counts, strict=True)):
        parts = [
            number
            for other, (each, number) in enumerate(zip(needs, counts, strict=True))
            if other != place and {*each.people} < {*need.people}
        ]
        shown.append(0 if any(parts) else count)
    return shown


def _in_order(needs: Sequence[Need], counts: Sequence[int]) -> str:
    """The people of each stage, one after the other."""
    stages: dict[int, list[str]] = {}
    for need, count in zip(needs, counts, strict=True):
        if count:
            stages.setdefault(need.stage, []).append(_some_of(need.people, count))
    first, *later = (listed(stages[stage]) for stage in sorted(stages))
    for people in later:
        first = gettext("{people}, then {others}").format(people=first, others=people)
    return first


def _some_of(names: Sequence[str], count: int) -> str:
    """So many of these people and groups."""
    (only, *others) = names
    if not others and only.startswith(GROUP):
        group = display_name(only.removeprefix(GROUP))
        text = ngettext("somebody from {group}", "{count} people from {group}", count)
        return text.format(group=group, count=count)
    if not others:
        return display_name(only)
    text = ngettext("one of {names}", "{count} of {names}", count)
    return text.format(count=count, names=listed([recipient_name(name) for name in names]))
