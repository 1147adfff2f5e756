"""The contract of a backend, as a pytest class. Run it on your own backend, with pytest-asyncio in auto mode.

For example:

    class TestMine(DeskContract):
        @pytest.fixture
        def backend(self) -> Backend:
            return AddressBackend("mine://…")

Every test opens its own desks in its own workspace, so that one store can serve a whole run.
"""

from handraise.model.errors import MissingExtra

try:
    import pytest  # noqa: F401 -- an extra: say which, once, here
except ModuleNotFoundError as error:
    raise MissingExtra("pytest", "testing") from error

from handraise.testing.contract.answer_cases import AnswerCases
from handraise.testing.contract.approval_cases import ApprovalCases
from handraise.testing.contract.ask_cases import AskCases
from handraise.testing.contract.attachment_cases import AttachmentCases, FileAnswerCases
from handraise.testing.contract.backend import AddressBackend, Backend, MemoryBackend
from handraise.testing.contract.brief_cases import BriefCases
from handraise.testing.contract.bulk_cases import BulkCases, RuledBulkCases
from handraise.testing.contract.bus import BusContract, Buses
from handraise.testing.contract.chat_claim_cases import ChatClaimCases
from handraise.testing.contract.directory import DirectoryContract
from handraise.testing.contract.heartbeat_cases import HeartbeatCases, OrphanCases
from handraise.testing.contract.key_alias_cases import KeyAliasCases
from handraise.testing.contract.pending_view_cases import PendingViewCases
from handraise.testing.contract.policy_cases import PolicyCases
from handraise.testing.contract.quorum_cases import QuorumCases
from handraise.testing.contract.quota_cases import QuotaCases
from handraise.testing.contract.receipt_cases import ReceiptCases, RuledReceiptCases
from handraise.testing.contract.report_cases import ReportCases, StoppedReportCases
from handraise.testing.contract.search_cases import SearchCases
from handraise.testing.contract.send_back_cases import ReplacingCases, SendBackCases
from handraise.testing.contract.settled_cases import SettledCases
from handraise.testing.contract.sharing_cases import (
    AsideCases,
    BringingInCases,
    HandingOverCases,
    RuledSharingCases,
    SharingCases,
    TakingCases,
)
from handraise.testing.contract.standing_answer_cases import StandingAnswerCases
from handraise.testing.contract.stop_cases import StopCases
from handraise.testing.contract.store import StoreContract
from handraise.testing.contract.thread_cases import ConsentCases, ReplyingCases, ThreadCases, TurnCases
from handraise.testing.contract.timeline_cases import TimelineCases
from handraise.testing.contract.topic_cases import TopicCases
from handraise.testing.contract.view_cases import ViewCases
from handraise.testing.contract.wait_cases import WaitCases
from handraise.testing.contract.working_time_cases import WorkingTimeCases

__all__ = [
    "AddressBackend",
    "Backend",
    "BusContract",
    "Buses",
    "DeskContract",
    "DirectoryContract",
    "MemoryBackend",
    "QuestionContract",
    "StoreContract",
]


class QuestionContract(
    AskCases,
    AnswerCases,
    ApprovalCases,
    BriefCases,
    BulkCases,
    ChatClaimCases,
    HeartbeatCases,
    KeyAliasCases,
    QuorumCases,
    ReportCases,
    ThreadCases,
    ConsentCases,
    SendBackCases,
    ReplacingCases,
    SharingCases,
    TakingCases,
    BringingInCases,
    HandingOverCases,
    AsideCases,
    TopicCases,
    TurnCases,
    ReplyingCases,
    WaitCases,
    TimelineCases,
    ViewCases,
    SettledCases,
    SearchCases,
    PendingViewCases,
    ReceiptCases,
):
    """What a desk promises on a store and a bus alone. The backend of the `backend` fixture needs only `open`."""


class DeskContract(
    QuestionContract,
    AttachmentCases,
    FileAnswerCases,
    OrphanCases,
    PolicyCases,
    StandingAnswerCases,
    StopCases,
    QuotaCases,
    WorkingTimeCases,
    RuledBulkCases,
    RuledReceiptCases,
    RuledSharingCases,
    StoppedReportCases,
):
    """Everything that a desk promises, on the backend of the `backend` fixture: also policies, stops, quotas, hours and files."""
