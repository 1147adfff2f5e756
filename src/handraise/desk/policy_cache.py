"""The policies of workspaces, compiled and cached. The store decides whether a cached one is still the latest."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from handraise.model.agreement import can_agree
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.questions import Draft, Question, redrafted
from handraise.model.rulings import Ruling
from handraise.model.stops import Stop
from handraise.policies.rule_process import DEADLINE
from handraise.ports import Clock, Policies

if TYPE_CHECKING:
    from handraise.policies.decide import CompiledPolicy

_log = logging.getLogger(__name__)
_MOST = 1_000
_RESUMED_WITHIN = 5.0
"""For how many seconds a policy with suspended rules is cached: nothing else tells that a suspension has ended."""
_WHO = frozenset({"recipients", "quorum"})
"""Parts of a question with which a policy can change who must agree."""
_draw = random.SystemRandom().random


class PolicyCache:
    """Applies the policies of workspaces to questions."""

    def __init__(
        self,
        policies: Policies | None,
        clock: Clock | None = None,
        *,
        on_decided: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`on_decided` is called with the seconds that rules took for a question."""
        self._policies = policies
        self._clock = clock
        self._on_decided = on_decided
        self._one_at_a_time = asyncio.Lock()
        self._compiled: dict[str, CompiledPolicy | None] = {}
        self._reading: dict[str, asyncio.Task[CompiledPolicy | None]] = {}
        self._until: dict[str, float] = {}

    async def apply(self, draft: Draft) -> Draft:
        """The question as the policy of its workspace changes it, with its ruling; as it is without a policy.

        A standing answer for its topic settles it, unless it becomes a spot check. Raises `InvalidQuestion` if its rules
        name fewer people than must agree, so that nobody could ever answer it.
        """
        decided = await self._by_rules(draft)
        if self._policies is None or decided.topic_key is None or decided.evidence is not None:
            return decided
        ruling = decided.ruling or Ruling(version=0)
        if ruling.ending is not None:
            return decided
        found = await self._policies.find_standing_answer(decided)
        if found is None:
            return decided
        if _draw() < found.spot_check:
            return redrafted(decided, ruling=replace(ruling, standing=found.id))
        return redrafted(decided, ruling=replace(ruling, ending=found.ending))

    async def _by_rules(self, draft: Draft) -> Draft:
        policy = await self._policy(draft.workspace)
        if policy is None:
            return draft
        decided = await self._decided(policy, draft, self._now(), _draw)
        ruling = decided.ruling
        if ruling is not None and await self._checks_wait(policy, draft.workspace, ruling):
            return redrafted(decided, ruling=replace(ruling, ending=None))
        if ruling is not None and not _WHO.isdisjoint(ruling.asked) and not can_agree(decided):
            raise InvalidQuestion([_too_few(decided, ruling)])
        return decided

    async def _checks_wait(self, policy: CompiledPolicy, workspace: str, ruling: Ruling) -> bool:
        """Whether so many spot checks of the rule that allows a question wait that people have to decide about it too.

        Questions that are asked at the same moment do not count each other.
        """
        rule = policy.allowing(ruling)
        if rule is None or rule.then.allow is None or self._policies is None:
            return False
        most = rule.then.allow.outstanding
        return await self._policies.count_waiting_checks(workspace, rule.digest, limit=most) >= most

    async def still_allows(self, question: Question) -> Ruling | None:
        """The ruling with which the policy would allow this question now, or None if it would not."""
        policy = await self._policy(question.workspace)
        if policy is None:
            return None
        asked = redrafted(question, ruling=None)
        applied = (await self._decided(policy, asked, question.asked_at, lambda: 1.0)).ruling
        if applied is None or applied.ending is None or applied.ending.status != "answered":
            return None
        return applied if applied.ending.record["value"]["decision"] == "approve" else None

    async def _decided(
        self, policy: CompiledPolicy, draft: Draft, at: datetime, draw: Callable[[], float]
    ) -> Draft:
        """What `CompiledPolicy.apply` makes of a question. Rules that may take long do not hold the event loop."""
        if is_slow := policy.may_take_long(draft):
            async with self._one_at_a_time:  # they share a process, and other work needs threads too
                began = time.perf_counter()
                decided = await asyncio.to_thread(policy.apply, draft, at, draw)
        else:
            began = time.perf_counter()
            decided = policy.apply(draft, at, draw)
        took = time.perf_counter() - began
        self._on_decided(took)
        if is_slow and took > DEADLINE:
            _log.warning(
                "the rules of the policy took %.0f ms for a question",
                took * 1_000,
                extra={"event": "rules_slow", "workspace": draft.workspace, "agent": draft.asker},
            )
        return decided

    async def stops(self, workspace: str) -> Sequence[Stop]:
        """The stops of a workspace, read from the store, the oldest first."""
        return () if self._policies is None else await self._policies.stops(workspace)

    @property
    def port(self) -> Policies:
        """Where the policies are stored, and standing answers with them."""
        if self._policies is None:
            raise RuntimeError("this desk was opened without a place for standing answers")
        return self._policies

    def _now(self) -> datetime:
        now = None if self._clock is None else self._clock.now()
        return now or datetime.now(UTC)

    def forget(self, workspace: str, version: int | None = None) -> None:
        """Read the policy of a workspace again when it is needed next, if this version (0 for none) is cached."""
        known = self._compiled.get(workspace)
        if version is None or version == (0 if known is None else known.version):
            self._compiled.pop(workspace, None)
            self._until.pop(workspace, None)

    async def _policy(self, workspace: str) -> CompiledPolicy | None:
        if self._policies is None:
            return None
        if self._until and self._until.get(workspace, math.inf) < time.monotonic():
            self.forget(workspace)
        try:
            return self._compiled[workspace]
        except KeyError:
            pass
        # However many wait for it, it is read and compiled once.
        reading = self._reading.get(workspace)
        if reading is None:
            reading = self._reading[workspace] = asyncio.create_task(self._read(self._policies, workspace))
            reading.add_done_callback(lambda _: self._reading.pop(workspace, None))
        return await asyncio.shield(reading)

    async def _read(self, policies: Policies, workspace: str) -> CompiledPolicy | None:
        current = await policies.current(workspace)
        compiled = None
        if current is not None:
            # Only now: CEL is in an extra, and without a policy nobody needs it.
            from handraise.policies.decide import compile_version  # noqa: PLC0415

            compiled = compile_version(current)
        if len(self._compiled) >= _MOST:
            self._compiled.clear()
            self._until.clear()
        self._compiled[workspace] = compiled
        if compiled is not None and compiled.suspended:
            self._until[workspace] = time.monotonic() + _RESUMED_WITHIN
        return compiled


def _too_few(draft: Draft, ruling: Ruling) -> Problem:
    rules = " and ".join(
        repr(each.rule) for each in ruling.matches if (each.effect, each.mode) == ("require", "enforce")
    )
    return Problem(
        "quorum",
        f"nobody could answer it: {draft.quorum} people must agree, and with the policy's rule {rules} fewer may answer. "
        "Ask for fewer people, or ask an administrator to change the rule",
    )
