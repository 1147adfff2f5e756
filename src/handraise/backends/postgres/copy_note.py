"""What a PostgreSQL database notes about the copy that it is a part of."""

from __future__ import annotations

import json

from handraise.backends.postgres.connections import Connection
from handraise.backends.sql.store_copy import CopyNote
from handraise.backends.sql_files import load_statements
from handraise.model.errors import UnsafeStore

COPY = load_statements("handraise.backends.postgres", "copy.sql")


async def read_note(acquired: Connection) -> CopyNote | None:
    """The note, if there is one."""
    row = await acquired.fetchrow(COPY["read_note"].numbered)
    if row is None:
        return None
    return CopyNote(
        row["id"],
        row["side"],
        row["other"],
        row["begun_at"],
        row["finished_at"],
        json.loads(row["progress"]),
    )


async def put_note(acquired: Connection, note: CopyNote | None) -> None:
    """Note this instead, or nothing."""
    async with acquired.transaction():
        await acquired.execute(COPY["forget_note"].numbered)
        if note is not None:
            statement = COPY["put_note"]
            values = statement.arguments(
                id=note.id,
                side=note.side,
                other=note.other,
                begun_at=note.begun_at,
                finished_at=note.finished_at,
                progress=json.dumps(dict(note.progress)),
            )
            await acquired.execute(statement.numbered, *values)


async def check_not_copied(acquired: Connection) -> None:
    """Raise `UnsafeStore` if the store was copied elsewhere, or is the target of an unfinished copy."""
    note = await read_note(acquired)
    if note is not None and (refusal := note.refusal()):
        raise UnsafeStore(refusal)
