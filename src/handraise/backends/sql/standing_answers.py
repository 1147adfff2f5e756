"""Answers that people keep for a topic, in all SQL engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from handraise.backends.sql.decided_changes import (
    Rights,
    event_values,
    groups_asked,
    named_groups,
    right_of,
    rights_of,
)
from handraise.backends.sql.executor import SqlExecutor
from handraise.backends.sql.parameters import json_text
from handraise.backends.sql.rows import instant, stored_question, stored_standing_answer
from handraise.backends.sql.transactions import Transaction
from handraise.model.ask_decisions import AskFacts, standing_holds
from handraise.model.events import EventKind
from handraise.model.outcomes import Answered
from handraise.model.people import Responder, backing
from handraise.model.questions import Draft, Question, Ref, posted
from handraise.model.standing_answers import StandingAnswer, kept_record


class SqlStandingAnswers:
    """The part of the policies for standing answers. See `handraise.ports.standing_answers` for the promises."""

    _executor: SqlExecutor

    async def find_standing_answer(self, draft: Draft) -> StandingAnswer | None:
        """The standing answer that holds; see the port."""

        async def work(run: Transaction) -> StandingAnswer | None:
            kept = await run("standing_for", topic_key=draft.topic_key)
            if not kept:
                return None
            question, people = (
                posted(draft, instant(kept[0]["now"])),
                {(draft.workspace, row["given_by"]) for row in kept},
            )
            rights = (await rights_of(people, groups_asked([question]), run)).get(
                draft.workspace, Rights({}, set())
            )
            facts = AskFacts(now=question.asked_at, known=rights.known, disabled=rights.disabled)
            for row in kept:
                standing = stored_standing_answer(row)
                if standing_holds(draft, standing, right_of(row), facts):
                    return standing
            return None

        return await self._executor.transact(draft.workspace, work)

    async def keep_answer(
        self, ref: Ref, responder: Responder, *, standing_id: str, until: datetime, spot_check: float
    ) -> StandingAnswer | None:
        """Keep an answer; see the port."""

        async def work(run: Transaction) -> StandingAnswer | None:
            rows = await run.fetch_each("lock_settled", [ref._asdict()])
            question = stored_question(rows[0]) if rows else None
            if (
                question is None
                or not _is_own_answer(question, responder.id)
                or until <= instant(rows[0]["now"])
            ):
                return None
            topic = {"workspace": ref.workspace, "topic_key": question.topic_key}
            await run.fetch_each("lock_topics", [topic])
            older = [stored_standing_answer(row) for row in await run("standing_for", **topic)]
            rights = await rights_of({(ref.workspace, responder.id)}, groups_asked([question]), run)
            known = rights[ref.workspace].known.get(responder.id) if ref.workspace in rights else None
            standing = StandingAnswer(
                id=standing_id,
                workspace=ref.workspace,
                topic=question.topic or "",
                value=question.outcome.value if isinstance(question.outcome, Answered) else None,
                given_by=responder.id,
                question_id=ref.id,
                created_at=instant(rows[0]["now"]),
                expires_at=until,
                spot_check=spot_check,
            )
            kept = {
                **{name: getattr(standing, name) for name in _STORED},
                "topic_key": question.topic_key,
                "value": json_text(standing.value),
                "giver_backed": backing(question, responder.id, known),
                "giver_groups": json_text(named_groups(responder.groups)),
            }
            ends = [
                {"workspace": ref.workspace, "id": each.id, "actor": responder.id, "contradicted_in": None}
                for each in older
            ]
            record = kept_record(standing_id, until, spot_check)
            revoked, by = EventKind.REVOKED, responder.id
            events = [
                *(
                    event_values(Ref(ref.workspace, each.question_id), revoked, {"standing": each.id}, by)
                    for each in older
                ),
                event_values(ref, EventKind.KEPT, record, by),
            ]
            await run.write({"add_standing": [kept], "end_standing": ends, "add_events": events})
            return standing

        return await self._executor.transact(ref.workspace, work)

    async def standing_answers(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[StandingAnswer]:
        """All standing answers; see the port."""
        rows = await self._executor.fetch(workspace, "standing_answers", after=after or "", limit=limit)
        return [stored_standing_answer(row) for row in rows]

    async def revoke_standing_answer(
        self, workspace: str, standing_id: str, *, by: str
    ) -> StandingAnswer | None:
        """End a standing answer; see the port."""
        record = json_text({"standing": standing_id})
        rows = await self._executor.fetch(
            workspace, "revoke_standing_answer", standing=standing_id, actor=by, record=record
        )
        rows = rows or await self._executor.fetch(workspace, "read_standing_answer", standing=standing_id)
        return stored_standing_answer(rows[0]) if rows else None


_STORED = (
    "id",
    "workspace",
    "topic",
    "given_by",
    "question_id",
    "created_at",
    "expires_at",
    "spot_check",
)


def _is_own_answer(question: Question, person: str) -> bool:
    """Whether this person gave the answer to a question of a topic."""
    outcome = question.outcome
    if not isinstance(outcome, Answered) or question.topic_key is None:
        return False
    return outcome.source == "person" and outcome.by == person
