"""The contract of a directory: keys, people, groups, sessions, links, and requests that are not done twice."""

from handraise.testing.contract.directory.agent_keys import AgentKeysContract
from handraise.testing.contract.directory.entering import EnteringContract
from handraise.testing.contract.directory.forgetting import ForgettingContract
from handraise.testing.contract.directory.people import PeopleContract
from handraise.testing.contract.directory.question_links import QuestionLinksContract
from handraise.testing.contract.directory.requests import RequestsContract

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
