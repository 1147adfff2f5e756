"""Where there is a failpoint: every step of each verb, by backend; and why some statements that write have none.

The steps are in `points.txt`, which `python -m chaos failpoints --write` makes from runs in which nothing is struck.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from handraise.backends.sql.dialects import Dialect
from handraise.backends.sql_files import load_port_statements, parts_of

BACKENDS = ("postgres", "confined", "sqlite")
"""`confined` is PostgreSQL with a transaction around each workspace's statements, as at a server."""

POINTS_FILE = Path(__file__).with_name("points.txt")
WRITE_ANEW = "write it anew: python -m chaos failpoints --write"

BESIDE = frozenset(
    {
        "notify",
        "listeners",
        "rollback",
        "history",
        "history/commit",
        "covering_stop",
        "covering_stop/commit",
        "mark_sent/commit",
    }
)
"""What runs beside a verb, at no fixed time: it is struck if the verb always reaches it. A history and
a stop are read to say why an approval was not given out. A mark that was made before a fault is made again, for nothing."""

OUTSIDE: dict[str, frozenset[str]] = {
    "it writes the search index only, which follows the events and is made again from them": frozenset(
        {
            "put_in_index",
            "put_in_index_2",
            "put_in_index_3",
            "note_indexed",
            "unindex",
            "merge_index",
        }
    ),
    "it says that somebody waits; one that is lost is followed by the next, and the contract has what they decide": frozenset(
        {"beat", "put_off_closing"}
    ),
    "it is part of the transaction of a vote or of a denial, which has failpoints before and after it": frozenset(
        {"suspend_rules"}
    ),
    "it is decided by the row that `consume` changes too, and the contract has the race of the two": frozenset(
        {"save_taken_back"}
    ),
    "it removes on purpose what is not kept any more": frozenset(
        {"remove", "remove_events", "remove_deliveries"}
    ),
    "it keeps where people are told, and no question is touched": frozenset(
        {"put_address", "remove_address", "find_address", "put_routing", "retry_delivery"}
    ),
}
"""Statements that write or lock and have no failpoint, by the reason for it."""

OUTSIDE_FILES = {
    "directory.sql": "it keeps who is who, and no question is touched",
    "files.sql": "what is cut off is not referred to, and is removed a day later (tests/backends/test_files.py)",
    "ledger.sql": "it is of the audit trail, which has proofs of its own (tests/backends/test_audit.py)",
    "policies.sql": "tests/chaos/test_policy_changes.py and test_stops.py kill servers while they change what holds",
}
"""Files of which statements need no failpoint, and why."""


def load_points() -> dict[str, dict[str, tuple[str, ...]]]:
    """All steps that have a failpoint, by backend and verb."""
    points: dict[str, dict[str, list[str]]] = {backend: {} for backend in BACKENDS}
    for line in POINTS_FILE.read_text().splitlines():
        backend, _, point = line.partition(" ")
        verb, _, step = point.partition(".")
        points[backend].setdefault(verb, []).append(step)
    return {
        backend: {verb: tuple(steps) for verb, steps in verbs.items()} for backend, verbs in points.items()
    }


def write_points(made: Mapping[str, Mapping[str, set[str]]]) -> None:
    """Make these the steps of the backends that are named; those of the others stay."""
    points = {**(load_points() if POINTS_FILE.exists() else {}), **made}
    lines = {
        f"{backend} {verb}.{step}\n"
        for backend, verbs in points.items()
        for verb in verbs
        for step in verbs[verb]
    }
    POINTS_FILE.write_text("".join(sorted(lines)))


def outside_by_file(dialect: Dialect) -> frozenset[str]:
    """The statements of one engine that need no failpoint because of their file."""
    statements = load_port_statements(f"handraise.backends.{dialect}", dialect, tuple(OUTSIDE_FILES)).values()
    return frozenset(name for statement in statements for name in parts_of(statement))
