"""The views that people save for their own lists. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handraise.model.saved_views import SavedView


class SavedViews(Protocol):
    """A part of the directory. A saved view changes no right, so it leaves no event. It is removed with its person."""

    async def save_view(
        self, workspace: str, person: str, name: str, *, query: str, at_most: int
    ) -> SavedView | None:
        """Save a view of a person under a name.

        None, and nothing changes, if there is no such person, if they have a view of this name, or if they have `at_most`
        views already. Any number of concurrent calls save no more than that.
        """
        ...

    async def saved_views(self, workspace: str, person: str) -> Sequence[SavedView]:
        """The views of a person, in the order in which they were saved."""
        ...

    async def remove_view(self, workspace: str, person: str, name: str) -> bool:
        """Remove a view of a person; False if they have none of this name."""
        ...
