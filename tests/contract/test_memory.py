import pytest

from handraise.testing.contract import Backend, DeskContract, MemoryBackend


class TestMemory(DeskContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()
