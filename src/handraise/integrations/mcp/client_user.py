"""The person at the client: what they may answer, and how answers that the client sends for them are recorded."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import anyio
import mcp_types as types

from handraise import (
    AlreadySettled,
    Desk,
    HandraiseError,
    InvalidAnswer,
    Problem,
    Question,
    Responder,
)
from handraise.integrations.mcp.elicitation import Elicitation
from handraise.model.evidence import CLIENT_ASSERTED
from handraise.model.provenance import Provenance

_log = logging.getLogger(__name__)

CHANNEL = "mcp"
TO_RECORD = 30.0
"""How many seconds an answer may take to be recorded."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of a client's answer.

    It has `problems` to show, or was `refused` for a reason, or was `dismissed` unanswered; otherwise it
    counts, or somebody else was first.
    """

    problems: tuple[Problem, ...] = ()
    refused: str | None = None
    dismissed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the question is settled, or about to be."""
        return not self.problems and self.refused is None and not self.dismissed


@dataclass(frozen=True, slots=True)
class ClientPerson:
    """The person at the client, as configured when the server was started, and the desk on which they may answer."""

    desk: Desk
    responder: Responder

    async def may_answer(self, question: Question) -> bool:
        """Whether this person may answer the question; the desk knows their groups.

        If their desk rejects them, they may not: the question can still be answered elsewhere.
        """
        after = None
        while True:
            try:
                page = await self.desk.list_pending(
                    conversation=question.conversation,
                    asker=question.asker,
                    recipient=self.responder,
                    after=after,
                )
            except HandraiseError as error:
                _log.warning("%s cannot answer at the client: %s", self.responder.id, error)
                return False
            if any(each.id == question.id for each in page.items):
                return True
            if page.next is None:
                return False
            after = page.next

    async def take(self, question: Question, elicitation: Elicitation, given: types.ElicitResult) -> Taken:
        """Record the answer that the client sends for its user, as only asserted by a program.

        A person's answer is recorded even if the call ends meanwhile.
        """
        if given.action == "cancel":
            return Taken(dismissed=True)
        with anyio.move_on_after(TO_RECORD, shield=True):
            try:
                await self._record(question, elicitation, given)
            except InvalidAnswer as misfit:
                return Taken(problems=misfit.problems if misfit.outcome is None else ())
            except AlreadySettled:
                return Taken()
            except HandraiseError as error:
                return Taken(refused=f"The answer from this client does not count: {error}")
            return Taken()
        return Taken(refused="The answer from this client could not be recorded in time.")

    async def _record(self, question: Question, elicitation: Elicitation, given: types.ElicitResult) -> None:
        provenance = Provenance(channel=CHANNEL, evidence=CLIENT_ASSERTED, seen=elicitation.seen)
        if given.action == "decline":
            await self.desk.decline(question.id, by=self.responder, provenance=provenance)
        elif (reason := elicitation.sent_back(given.content or {})) is not None:
            await self.desk.send_back(question.id, by=self.responder, reason=reason, provenance=provenance)
        else:
            value = elicitation.read(given.content or {})
            await self.desk.answer(question.id, value, by=self.responder, provenance=provenance)
