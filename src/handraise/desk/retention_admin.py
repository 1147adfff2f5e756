"""How long a workspace keeps settled questions, what is held, and erasing: what administrators and operators do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from handraise.desk.attachment_store import AttachmentStore
from handraise.model.errors import InvalidRequest
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.model.seals import Hold, Rule
from handraise.ports import Ledger

LONGEST_DAYS = 36_500
FOREVER = "forever"
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Erasure:
    """What erasing came to: what was to be erased, what was, and whether deleted data is overwritten already."""

    ids: Sequence[str]
    erased: Sequence[str]
    is_overwritten: bool

    @property
    def left(self) -> Sequence[str]:
        """The questions that are under a hold, or do not exist."""
        return sorted(set(self.ids) - set(self.erased))


def read_rule(days: str) -> Rule:
    """The rule for a number of days or `forever`; raises `ValueError`."""
    if days == FOREVER:
        return Rule(None)
    try:
        number = float(days)
    except ValueError:
        number = -1.0
    if not 0 <= number <= LONGEST_DAYS:
        raise ValueError(f"{days!r} is not a number of days, nor `forever`")
    return Rule(timedelta(days=number))


async def place_hold(
    ledger: Ledger, workspace: str, name: str, *, question: str | None, reason: str, by: str
) -> Hold | None:
    """Place a hold; None if there is another one with this name. Raises `InvalidRequest` for texts that cannot be kept."""
    given = {"name": name, "reason": reason, "question": question or ""}
    problems = [Problem(field, why) for field, text in given.items() if (why := text_problem(text))]
    problems += [Problem(field, "is empty") for field in ("name", "reason") if not given[field].strip()]
    if problems:
        raise InvalidRequest(problems)
    hold = Hold(
        workspace=workspace, name=name, question_id=question, reason=reason, since=datetime.now(UTC), by=by
    )
    await ledger.hold(hold)
    found = next(each for each in await ledger.holds(workspace) if each.name == name)
    return found if (found.question_id, found.reason) == (question, reason) else None


async def concerned(
    ledger: Ledger, workspace: str, *, person: str | None, questions: Sequence[str] = ()
) -> list[str]:
    """The questions that erasing would erase: these, and those that concern a person."""
    ids = list(questions)
    if person is not None:
        ids += [each for each in await ledger.concerning(workspace, person) if each not in ids]
    return ids


async def erase(
    ledger: Ledger,
    attachments: AttachmentStore,
    workspace: str,
    *,
    person: str | None,
    questions: Sequence[str] = (),
    by: str,
) -> Erasure:
    """Erase a person with every question that concerns them, and single questions."""
    ids = await concerned(ledger, workspace, person=person, questions=questions)
    gone: list[str] = []
    for first in range(0, len(ids), _AT_ONCE):
        gone += await ledger.erase(workspace, ids[first : first + _AT_ONCE], by=by)
    if person is not None:
        await ledger.erase_person(workspace, person, by=by)
    await attachments.remove_unused()  # where the bytes are not in the database
    return Erasure(ids, gone, await ledger.scrub())
