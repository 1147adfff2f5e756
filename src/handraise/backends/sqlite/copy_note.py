"""What a SQLite file notes about the copy that it is a part of."""

from __future__ import annotations

import json
import sqlite3

from handraise.backends.sql.portable_values import instant_at, micros
from handraise.backends.sql.store_copy import CopyNote

_READ = "select id, side, other, begun_at, finished_at, progress from store_copy"
_PUT = "insert into store_copy (id, side, other, begun_at, finished_at, progress) values (?, ?, ?, ?, ?, ?)"


def read_note(connection: sqlite3.Connection) -> CopyNote | None:
    """The note, if there is one."""
    row = connection.execute(_READ).fetchone()
    if row is None:
        return None
    id_, side, other, begun_at, finished_at, progress = row
    finished = None if finished_at is None else instant_at(finished_at)
    return CopyNote(id_, side, other, instant_at(begun_at), finished, json.loads(progress))


def put_note(connection: sqlite3.Connection, note: CopyNote | None) -> None:
    """Note this instead, or nothing."""
    connection.execute("delete from store_copy")
    if note is not None:
        finished = None if note.finished_at is None else micros(note.finished_at)
        values = [note.id, note.side, note.other, micros(note.begun_at), finished, json.dumps(note.progress)]
        connection.execute(_PUT, values)
