"""The same waits where hints ride on NATS beside PostgreSQL."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from handraise import Desk
from handraise.testing.contract import AddressBackend, Backend
from handraise.testing.contract.wait_cases import WaitCases


class NatsBackend(AddressBackend):
    """Desks on PostgreSQL that hear over NATS."""

    def __init__(self, address: str, bus: str) -> None:
        super().__init__(address)
        self._bus = bus

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        return super().open(**{"bus": self._bus, **options})


class TestNats(WaitCases):
    @pytest.fixture
    def backend(self, postgres: str, nats: str) -> Backend:
        return NatsBackend(postgres, nats)
