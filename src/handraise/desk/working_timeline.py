"""What the working time in a timeline comes to, when a question is posted."""

from __future__ import annotations

from handraise.desk.public_holidays import holidays_of
from handraise.desk.recipient_check import Recipients
from handraise.model.group_calendars import timed_steps
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.questions import Draft, redrafted
from handraise.model.working_hours import NoWorkingTime

_NO_DIRECTORY = "counts working time, but this desk has no directory with working hours: write hours or days"
_NO_HOURS = (
    "counts working time, but neither the group that is asked nor the workspace has working hours: "
    "set them, with: handraise groups hours"
)


async def with_working_time(draft: Draft, recipients: Recipients | None) -> Draft:
    """The question with the times of its timeline, or as it is if none of them counts working time.

    The hours are those of the first group that is asked, else those of the workspace. Raises `InvalidQuestion` if
    there are none.
    """
    if not any(step.working for step in draft.steps):
        return draft
    if recipients is None:
        raise InvalidQuestion([Problem("timeline", _NO_DIRECTORY)])
    calendars = await recipients.calendars(draft.workspace)
    hours = calendars.hours_for(draft.recipients)
    if hours is None:
        raise InvalidQuestion([Problem("timeline", _NO_HOURS)])
    try:
        steps = timed_steps(draft.steps, hours, calendars.now, holidays_of(hours))
    except NoWorkingTime as error:
        raise InvalidQuestion([Problem("timeline", f"cannot be counted: {error}")]) from None
    return redrafted(draft, steps=steps)
