import pytest

from handraise.testing.contract import AddressBackend, Backend, DeskContract


class TestPostgres(DeskContract):
    @pytest.fixture
    def backend(self, postgres: str) -> Backend:
        return AddressBackend(postgres)
