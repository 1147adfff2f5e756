"""Grants: remembered approvals, with an end, revocable, visible."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from handraise.model.forms import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An approval that holds again: for the same asker, tool, arguments and recipients, until its end.

    `digest` is what the actions it holds for have in common; `question_id` is where it was given.
    """

    id: str
    workspace: str
    asker: str
    tool: str
    digest: str
    scope: Scope
    conversation: str | None
    granted_by: str
    question_id: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def holds(self, now: datetime, conversation: str | None) -> bool:
        """Whether it holds at this instant, in this conversation."""
        if self.revoked_at is not None or self.expires_at <= now:
            return False
        return self.scope == "always" or (conversation is not None and conversation == self.conversation)
