"""Views that people save: a name for the filters and the order of their list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

MOST_SAVED = 20
"""How many views a person can save in a workspace."""
LONGEST_NAME = 60
LONGEST_QUERY = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A view that a person saved. `query` is the query of the list's address, and is checked again when it is used."""

    workspace: str
    person: str
    name: str
    query: str
    created_at: datetime
