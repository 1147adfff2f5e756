import pytest

from handraise.testing.contract import Backend, DeskContract, MemoryBackend
from handraise.testing.contract.policy_cases import PolicyCases


class TestMemory(DeskContract, PolicyCases):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()
