"""A2A v1, both ways: an agent's tasks wait for people, and people answer the questions of a remote agent."""

from handraise.errors import MissingExtra

try:
    import a2a.types as _types  # noqa: F401 -- an extra: say which, once, here
except ImportError as error:
    raise MissingExtra(error.name or "a2a-sdk", "a2a") from error

from handraise.integrations.a2a.client import RemoteAgent
from handraise.integrations.a2a.tasks import DeskTask, TaskWaker

__all__ = ["DeskTask", "RemoteAgent", "TaskWaker"]
