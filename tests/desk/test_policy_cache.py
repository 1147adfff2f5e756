"""The cache of policies: a rule that was resumed elsewhere allows questions here again."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from handraise.desk import policy_cache
from handraise.desk.policy_cache import PolicyCache
from handraise.model.drafting import Limits, compose
from handraise.model.forms import Approval
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion, Suspension
from handraise.policies.rule_process import RULES
from handraise.policies.rules import parse_policy

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
DOCUMENT: dict[str, Any] = {"rules": [{"name": "all", "then": "allow"}]}


class OnePolicy:
    """The policies of a store in which one rule is suspended until it is resumed."""

    def __init__(self, document: dict[str, Any] = DOCUMENT) -> None:
        rule = parse_policy(document).rules[0].digest
        self._document = document
        self.suspensions: tuple[Suspension, ...] = (
            Suspension(workspace="w", rule=rule, question_id="q", by="ann", at=NOW),
        )

    async def current(self, workspace: str) -> CurrentPolicy:
        version = PolicyVersion(workspace=workspace, version=1, document=self._document, by="ann", at=NOW)
        return CurrentPolicy(version=version, suspensions=self.suspensions)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_a_resumed_rule_allows_again_when_the_cache_has_expired(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(policy_cache, "_RESUMED_WITHIN", seconds)
    policies = OnePolicy()
    cache = PolicyCache(policies)  # type: ignore[arg-type] # only this method is needed
    form = Approval.of("refund", {"amount": 1})
    draft = compose("Refund?", {"form": form}, new_id="q", workspace="w", asker="bot", limits=Limits())

    async def is_allowed() -> bool:
        ruling = (await cache.apply(draft)).ruling
        return ruling is not None and ruling.ending is not None

    assert not await is_allowed()
    policies.suspensions = ()
    assert await is_allowed() is (seconds == 0.0)
    cache.forget("w")
    assert await is_allowed()


async def test_rules_that_may_take_long_leave_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"name": "many", "when": "args.ids.filter(i, i > 0).size() > 3", "then": {"deny": "too many"}}
    took: list[float] = []
    cache = PolicyCache(OnePolicy({"rules": [rule]}), on_decided=took.append)  # type: ignore[arg-type] # as above
    others_ran = threading.Event()
    evaluate = RULES.evaluate

    def when_others_ran(*given: Any) -> list[bool | None] | None:
        assert others_ran.wait(30), "the event loop was held"
        return evaluate(*given)

    monkeypatch.setattr(RULES, "evaluate", when_others_ran)
    form = Approval.of("delete_rows", {"ids": [1, 2, 3, 4]})
    draft = compose("Delete?", {"form": form}, new_id="q", workspace="w", asker="bot", limits=Limits())
    deciding = asyncio.create_task(cache.apply(draft))
    asyncio.get_running_loop().call_later(0, others_ran.set)
    ruling = (await deciding).ruling
    assert ruling is not None
    assert [each.rule for each in ruling.matches] == ["many"]
    assert not ruling.matches[0].failed
    assert len(took) == 1
