"""The contract of a directory: keys, people, groups, sessions, passkeys, links, and requests that are not done twice."""

from handraise.testing.contract.directory.agent_key_cases import AgentKeyCases
from handraise.testing.contract.directory.away_cases import AwayCases
from handraise.testing.contract.directory.calendar_cases import CalendarCases
from handraise.testing.contract.directory.cleanup_cases import CleanupCases
from handraise.testing.contract.directory.disabled_cases import DisabledCases
from handraise.testing.contract.directory.idempotency_cases import IdempotencyCases
from handraise.testing.contract.directory.passkey_cases import PasskeyCases
from handraise.testing.contract.directory.people_cases import PeopleCases
from handraise.testing.contract.directory.provider_cases import ProviderCases
from handraise.testing.contract.directory.question_link_cases import QuestionLinkCases
from handraise.testing.contract.directory.saved_view_cases import SavedViewCases
from handraise.testing.contract.directory.session_cases import SessionCases

__all__ = ["DirectoryContract"]


class DirectoryContract(
    AgentKeyCases,
    PeopleCases,
    DisabledCases,
    ProviderCases,
    AwayCases,
    CalendarCases,
    SessionCases,
    PasskeyCases,
    SavedViewCases,
    QuestionLinkCases,
    IdempotencyCases,
    CleanupCases,
):
    """Everything that a directory promises; you define `directory`, which must use the `clock`."""
