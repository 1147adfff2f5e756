from pathlib import Path

import pytest

from handraise.testing.contract import AddressBackend, Backend, DeskContract


class TestSqlite(DeskContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return AddressBackend(f"sqlite:///{tmp_path / 'questions.db'}")
