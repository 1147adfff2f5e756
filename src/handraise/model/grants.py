"""Grants: remembered approvals, with an end, revocable, visible."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from handraise.model.forms import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A remembered approval: it applies to the same asker, tool, arguments and recipients until it ends.

    `digest` is what the actions that it applies to have in common; `question_id` is the question it was given in.
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
        """Whether it is valid now, in this conversation."""
        if self.revoked_at is not None or self.expires_at <= now:
            return False
        return self.scope == "always" or (conversation is not None and conversation == self.conversation)
