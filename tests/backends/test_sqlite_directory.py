"""What only SQLite can show of a directory: races between processes, query plans, and an older file."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.statements import PARTS, STATEMENTS
from handraise.model.identities import Role

HOUR = timedelta(hours=1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.db"


async def test_of_two_processes_one_uses_a_link_and_one_makes_a_request(file: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    async with open_sqlite(file) as one, open_sqlite(file) as two:
        both = (one.directory, two.directory) * 25
        await one.directory.put_person("w", "ana", name="Ana", email=None, role=Role.MEMBER)
        await one.directory.add_link("w", "l", digest=digest, person="ana", purpose="sign-in", lasts=HOUR)
        used = await asyncio.gather(*(each.use_link("w", digest) for each in both))
        assert Counter(link is not None for link in used) == {True: 1, False: 49}
        claims = await asyncio.gather(
            *(
                each.claim("w", "a", "k", fingerprint="f", made=f"q-{n}", patience=HOUR)
                for n, each in enumerate(both)
            )
        )
        assert Counter(claim.state for claim in claims) == {"new": 1, "busy": 49}
        assert len({claim.made for claim in claims}) == 1


async def test_the_directory_outlives_the_process(file: Path) -> None:
    async with open_sqlite(file) as before:
        ana = await before.directory.put_person("w", "ana", name="Ana", email="a@x.org", role=Role.ADMIN)
        await before.directory.open_session("w", "s", digest="d", person="ana", how="link", lasts=HOUR)
    async with open_sqlite(file) as after:
        found = await after.directory.find_session("w", "d")
        assert found is not None
        assert found[1] == ana


@pytest.mark.parametrize(
    "name",
    [
        *("find_keys", "find_person", "find_person_by_email", "find_sessions", "find_link", "use_link"),
        *("keys", "people", "groups", "read_request", "finish", "remove_person", "open_session"),
        *("find_question_link", "end_question_links", "forget"),
    ],
)
async def test_a_statement_searches_and_never_scans(file: Path, name: str) -> None:
    async with open_sqlite(file):
        pass
    connection = sqlite3.connect(file)
    values = dict.fromkeys(STATEMENTS[name].parameters, 1)
    plan = [
        row[3] for part in PARTS[name] for row in connection.execute(f"explain query plan {part}", values)
    ]
    connection.close()
    assert [step for step in plan if step.startswith("SCAN") and "json_each" not in step] == []
    assert [step for step in plan if "TEMP B-TREE" in step] == []
