"""The cache of policies: a rule that was resumed elsewhere allows questions here again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handraise.desk import policy_cache
from handraise.desk.policy_cache import PolicyCache
from handraise.model.drafting import Limits, compose
from handraise.model.forms import Approval
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion, Suspension
from handraise.policies.rules import parse_policy

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
DOCUMENT = {"rules": [{"name": "all", "then": "allow"}]}


class OnePolicy:
    """The policies of a store in which one rule is suspended until it is resumed."""

    def __init__(self) -> None:
        rule = parse_policy(DOCUMENT).rules[0].digest
        self.suspensions: tuple[Suspension, ...] = (
            Suspension(workspace="w", rule=rule, question_id="q", by="ann", at=NOW),
        )

    async def current(self, workspace: str) -> CurrentPolicy:
        version = PolicyVersion(workspace=workspace, version=1, document=DOCUMENT, by="ann", at=NOW)
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
