"""The processor time of PostgreSQL, read from /proc: that of all sessions in one database."""

from __future__ import annotations

from pathlib import Path

from support.database import fetch_value

_SESSIONS = """
select string_agg(pid::text, ' ') from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
"""


async def server_cpu(address: str) -> dict[int, float] | None:
    """Seconds of processor time by session, for those that are open now; None if PostgreSQL is on another machine."""
    found = await fetch_value(address, _SESSIONS)
    sessions = [int(pid) for pid in (found or "").split()]
    files = [Path("/proc", str(pid), "schedstat") for pid in sessions]
    if not all(file.exists() for file in files):
        return None
    return {pid: int(file.read_text().split()[0]) / 1e9 for pid, file in zip(sessions, files, strict=True)}


def spent(before: dict[int, float] | None, after: dict[int, float] | None) -> float | None:
    """How many seconds these sessions worked in between."""
    if before is None or after is None:
        return None
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
