"""Where a page is followed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, a home and a data folder of a stranger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANDRAISE_URL", "memory:")  # so that what a page sets is undone too
    monkeypatch.delenv("HANDRAISE_URL")
    monkeypatch.delenv("HANDRAISE_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path
