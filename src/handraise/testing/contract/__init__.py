"""The contract of a backend, as a pytest class. To run it on yours, with pytest-asyncio in auto mode.

For example:

    class TestMine(DeskContract):
        @pytest.fixture
        def backend(self) -> Backend:
            return AddressBackend("mine://…")

Every test opens its own desks in a workspace of its own, so that one store can serve a whole run.
"""

from handraise.model.errors import MissingExtra

try:
    import pytest  # noqa: F401 -- an extra: say which, once, here
except ModuleNotFoundError as error:
    raise MissingExtra("pytest", "testing") from error

from handraise.testing.contract.answer_cases import AnsweringContract
from handraise.testing.contract.approval_cases import ApprovingContract
from handraise.testing.contract.ask_cases import AskingContract
from handraise.testing.contract.backend import AddressBackend, Backend, MemoryBackend
from handraise.testing.contract.bus import BusContract, Buses
from handraise.testing.contract.chat_claim_cases import SendingContract
from handraise.testing.contract.directory import DirectoryContract
from handraise.testing.contract.key_alias_cases import JoiningContract
from handraise.testing.contract.quorum_cases import AgreeingContract
from handraise.testing.contract.settled_cases import SettledContract
from handraise.testing.contract.store import StoreContract
from handraise.testing.contract.timeline_cases import TimingContract
from handraise.testing.contract.view_cases import LookingContract
from handraise.testing.contract.wait_cases import WaitingContract

__all__ = [
    "AddressBackend",
    "Backend",
    "BusContract",
    "Buses",
    "DeskContract",
    "DirectoryContract",
    "MemoryBackend",
    "StoreContract",
]


class DeskContract(
    AskingContract,
    AnsweringContract,
    ApprovingContract,
    SendingContract,
    JoiningContract,
    AgreeingContract,
    WaitingContract,
    TimingContract,
    LookingContract,
    SettledContract,
):
    """Everything that a desk promises, on whatever the `backend` fixture opens."""
