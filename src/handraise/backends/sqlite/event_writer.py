"""Events of a workspace, kept in the transaction that makes the change."""

from __future__ import annotations

import sqlite3

from handraise.backends.row_mapping import change_values
from handraise.backends.sqlite.statements import run
from handraise.model.workspace_events import Change


def note(connection: sqlite3.Connection, workspace: str, change: Change | None, now: int) -> None:
    """Keep what changed; nothing if it is None."""
    if change is not None:
        run(connection, "note_change", workspace=workspace, now=now, **change_values(change))
