import pytest

from handraise.testing.contract import AddressBackend, Backend, DeskContract


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgres(DeskContract):
    @pytest.fixture
    def backend(self, postgres: str) -> Backend:
        return AddressBackend(postgres)
