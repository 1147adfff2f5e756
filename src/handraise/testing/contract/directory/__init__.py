"""The contract of a directory: keys, people, groups, sessions, links, and requests that are not done twice."""

from handraise.testing.contract.directory.agent_key_cases import AgentKeysContract
from handraise.testing.contract.directory.cleanup_cases import ForgettingContract
from handraise.testing.contract.directory.idempotency_cases import RequestsContract
from handraise.testing.contract.directory.people_cases import PeopleContract
from handraise.testing.contract.directory.question_link_cases import QuestionLinksContract
from handraise.testing.contract.directory.session_cases import EnteringContract

__all__ = ["DirectoryContract"]


class DirectoryContract(
    AgentKeysContract,
    PeopleContract,
    EnteringContract,
    QuestionLinksContract,
    RequestsContract,
    ForgettingContract,
):
    """Everything that a directory promises; a `directory` that goes by the `clock` is yours to give."""
