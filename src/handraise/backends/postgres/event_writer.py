"""Events of a workspace, kept in the transaction that makes the change."""

from __future__ import annotations

from handraise.backends.postgres.database import Run
from handraise.backends.row_mapping import change_values
from handraise.backends.sql_files import load_statements
from handraise.model.workspace_events import Change

_NOTE = load_statements("handraise.backends.postgres", "directory.sql")["note_change"]


async def note(run: Run, workspace: str, change: Change | None) -> None:
    """Keep what changed; nothing if it is None."""
    if change is not None:
        await run(_NOTE, workspace=workspace, **change_values(change))
