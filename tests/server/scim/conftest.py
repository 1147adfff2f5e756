"""What SCIM does depends on the store only where a test says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = getattr(request, "param", "memory")
    if kind == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "questions.db")
        return f"sqlite:///{tmp_path / 'questions.db'}"
    return "memory:" if kind == "memory" else str(request.getfixturevalue("postgres"))
