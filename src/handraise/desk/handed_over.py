"""What was handed over to somebody who leaves goes back to who gave it: otherwise it would be in nobody's inbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from handraise.model.events import Event, EventKind
from handraise.model.identities import Person
from handraise.model.lifecycle import returned_move
from handraise.model.people import GROUP, Responder
from handraise.model.questions import Question, Ref
from handraise.ports import Directory, Filter, Store

_PAGE = 200


async def take_back(store: Store, directory: Directory, workspace: str, person_id: str) -> int:
    """Put the pending questions that were handed over to this person back into the inboxes of the givers.

    If several got a question, it stays with the others. If a giver has left too, it goes to who gave it to them. Return
    how many questions were put back.
    """
    number = 0
    async for question in pending_of(store, workspace, Responder(person_id)):
        if person_id not in question.added:
            continue
        giver = await _giver(directory, question, await store.history(question.ref), person_id)
        if giver is None:
            continue
        [moved] = await store.settle([returned_move(question, giver.responder, instead_of=person_id)])
        number += moved is not None
    return number


async def pending_of(store: Store, workspace: str, person: Responder) -> AsyncIterator[Question]:
    """The pending questions in somebody's inbox, and those that they have set aside."""
    for aside in (False, True):
        where = Filter(workspace=workspace, recipient=person, aside=aside)
        after = None
        while True:
            page = await store.by_urgency(where, after=after, limit=_PAGE)
            for question in await store.read([Ref(workspace, each.id) for each in page.places]):
                if question is not None:
                    yield question
            if page.after is None:
                break
            after = page.after


async def _giver(
    directory: Directory, question: Question, history: Sequence[Event], person_id: str
) -> Person | None:
    """Who gave it to this person and is still there; None if it is with somebody else, or if nobody did."""
    left_for_good = {each.person for each in question.aside if each.until is None}
    name, passed = person_id, {person_id}
    for event in reversed(history):
        if event.kind is not EventKind.HANDED_OVER or event.by is None:
            continue
        given_on, received = event.by in passed, name in _receivers(event)
        others = {*_receivers(event)} - passed - left_for_good
        if (given_on or received) and await _somebody_has_it(directory, question.workspace, others):
            return None
        if not received:
            continue
        giver = await directory.find_person(question.workspace, event.by)
        if giver is not None and giver.disabled_at is None:
            return giver if giver.id in left_for_good else None
        name = event.by
        passed.add(name)
    return None


async def _somebody_has_it(directory: Directory, workspace: str, names: Iterable[str]) -> bool:
    for name in names:
        if name.startswith(GROUP):
            return True
        person = await directory.find_person(workspace, name)
        if person is not None and person.disabled_at is None:
            return True
    return False


def _receivers(event: Event) -> Sequence[str]:
    data = event.data if isinstance(event.data, dict) else {}
    names = data.get("to")
    return [str(each) for each in names] if isinstance(names, list) else []
