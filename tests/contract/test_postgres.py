import pytest

from handraise.testing.contract import AddressBackend, Backend, DeskContract
from handraise.testing.contract.policy_cases import PolicyCases


@pytest.mark.slow("the statements are those behind row security, which the gate runs")
class TestPostgres(DeskContract, PolicyCases):
    @pytest.fixture
    def backend(self, postgres: str) -> Backend:
        return AddressBackend(postgres)
