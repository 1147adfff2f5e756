"""The views that people save, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from handraise.model.identities import Person
from handraise.model.questions import Ref
from handraise.model.saved_views import SavedView


class MemorySavedViews:
    """The part of the directory for saved views. See `handraise.ports.saved_views` for what each method promises."""

    _people: dict[Ref, Person]
    _views: dict[Ref, dict[str, SavedView]]

    def _now(self) -> datetime:
        raise NotImplementedError

    async def save_view(
        self, workspace: str, person: str, name: str, *, query: str, at_most: int
    ) -> SavedView | None:
        """Save a view; see the port."""
        ref = Ref(workspace, person)
        views = self._views.get(ref, {})
        if ref not in self._people or name in views or len(views) >= at_most:
            return None
        view = SavedView(workspace=workspace, person=person, name=name, query=query, created_at=self._now())
        self._views[ref] = {**views, name: view}
        return view

    async def saved_views(self, workspace: str, person: str) -> Sequence[SavedView]:
        """The views of a person; see the port."""
        found = self._views.get(Ref(workspace, person), {}).values()
        return sorted(found, key=lambda each: (each.created_at, each.name))

    async def remove_view(self, workspace: str, person: str, name: str) -> bool:
        """Remove a view; see the port."""
        return self._views.get(Ref(workspace, person), {}).pop(name, None) is not None
