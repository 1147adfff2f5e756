from pathlib import Path

import pytest

from handraise.testing.contract import AddressBackend, Backend, DeskContract


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestSqlite(DeskContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        return AddressBackend(f"sqlite:///{tmp_path / 'questions.db'}")
