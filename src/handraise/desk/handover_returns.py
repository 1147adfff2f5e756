"""What was handed over to somebody who leaves goes back to who gave it: otherwise it would be in nobody's inbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

from handraise.model.agreement import set_aside_for_good
from handraise.model.handovers import INBOX_EVENTS, handovers, receivers
from handraise.model.identities import Person
from handraise.model.lifecycle import put_back_for_move
from handraise.model.people import GROUP
from handraise.model.questions import Question, Ref
from handraise.ports import Directory, Filter, Store

_PAGE = 200
_MOST_EVENTS = 1_000


async def return_handovers(store: Store, directory: Directory, leaver: Person) -> int:
    """Put the pending questions that this person got by a hand-over back into the inboxes of the givers.

    A question stays with the others if somebody else who is here got it too, also from somebody who handed it on. Of
    several givers in a row, the last one who is here gets it. Return how many times a question was put back.
    """
    staff = StaffWithout(directory, leaver)
    number = 0
    async for question in questions_by_name(store, leaver):
        for giver in await returning_to(store, staff, question):
            [moved] = await store.settle([put_back_for_move(question, giver.responder, instead_of=leaver.id)])
            number += isinstance(moved, Question)
    return number


async def questions_by_name(store: Store, person: Person) -> AsyncIterator[Question]:
    """The pending questions that name a person or one of their groups, also those that they have set aside."""
    for aside in (False, True):
        where = Filter(workspace=person.workspace, recipient=person.responder, aside=aside, by_name=True)
        after = None
        while True:
            page = await store.by_urgency(where, after=after, limit=_PAGE)
            for question in await store.read([Ref(person.workspace, each.id) for each in page.places]):
                if question is not None:
                    yield question
            if page.after is None:
                break
            after = page.after


async def returning_to(store: Store, staff: StaffWithout, question: Question) -> list[Person]:
    """Who has to have the question again, because nobody to whom they gave it is here any more."""
    if not question.added:
        return []
    history = await store.histories(question.workspace, [question.id], kinds=INBOX_EVENTS, limit=_MOST_EVENTS)
    given = handovers(history)
    aside = set_aside_for_good(question)
    back: list[Person] = []
    for giver, names in ((each, receivers(given, each)) for each in reversed(given)):
        if giver not in aside or names.isdisjoint(staff.leaver.responder.principals):
            continue
        found = await staff.find(giver)
        if found is not None and not await staff.somebody_has_it(names, aside):
            back.append(found)
            aside -= {giver}
    return back


class StaffWithout:
    """Who is here without somebody who leaves; everybody is looked up once."""

    def __init__(self, directory: Directory, leaver: Person) -> None:
        self.leaver = leaver
        self._directory = directory
        self._people: dict[str, Person | None] = {leaver.id: None}
        self._groups: Mapping[str, Sequence[str]] | None = None

    async def find(self, name: str) -> Person | None:
        """The person with this name, if they are here."""
        if name not in self._people:
            person = await self._directory.find_person(self.leaver.workspace, name)
            self._people[name] = None if person is None or person.disabled_at is not None else person
        return self._people[name]

    async def somebody_has_it(self, names: Iterable[str], aside: Collection[str]) -> bool:
        """Whether one of these people, or of these groups, is here and has not set it aside for good."""
        for name in names:
            for person in await self._members(name):
                if person not in aside and await self.find(person) is not None:
                    return True
        return False

    async def _members(self, name: str) -> Sequence[str]:
        if not name.startswith(GROUP):
            return [name]
        if self._groups is None:
            self._groups = await self._directory.groups(self.leaver.workspace)
        return self._groups.get(name.removeprefix(GROUP), ())
