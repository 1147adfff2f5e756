"""Names that could be taken for another one."""

from __future__ import annotations

import pytest

from handraise import Approval, InvalidQuestion
from handraise.model.drafting import Limits, compose
from handraise.model.errors import PermissionDenied
from handraise.model.lookalike_names import misleading
from handraise.model.people import responder_of

MISLEADING = (
    "ann ",
    " ann",
    "ann  lee",
    "ann\u00a0",
    "ann\u200b",
    "a\u00adnn",
    "\u0430nn",
    "ann\u0435",
    "\uff41nn",
    "\U0001d41ann",
    "\ufb01nn",
    "a\u0308nn",
    "ann\t",
)
PLAIN = (
    "ann",
    "ann lee",
    "Zoë",
    "анна",
    "Ἄννα",
    "アン",
    "安娜",
    "ann@example.com",
    "team/bot-2",
    "🤖",
    "refund_all.v2",
)


@pytest.mark.parametrize("name", MISLEADING)
def test_a_name_that_could_be_taken_for_another_is_nobodys(name: str) -> None:
    assert misleading(name)
    with pytest.raises(PermissionDenied):
        responder_of(name)
    with pytest.raises(InvalidQuestion, match=r"form\.action\.tool"):
        asked_by("bot", tool=name)


@pytest.mark.parametrize("name", PLAIN)
def test_any_other_name_is_somebodys(name: str) -> None:
    assert misleading(name) is None
    assert responder_of(name).id == name
    asked_by(name)


@pytest.mark.parametrize(
    "tool", ["re fund", "refund ", " refund", "refund\u00a0", "re\u2003fund", "r\u0435fund", "refund\u200b"]
)
def test_a_tool_has_no_blank_and_no_letter_of_another_alphabet(tool: str) -> None:
    with pytest.raises(InvalidQuestion, match=r"form\.action\.tool"):
        asked_by("bot", tool=tool)


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "policy:close_orphans",
        "command line",
        "command line (root)",
        "group:ops",
        "reader:x",
        "scim:x",
        "admin:x",
    ],
)
def test_an_agent_is_not_called_like_a_rule_an_operator_or_a_group(name: str) -> None:
    with pytest.raises(InvalidQuestion, match="is no agent"):
        asked_by(name)


def asked_by(asker: str, *, tool: str = "refund") -> None:
    options = {"form": Approval.of(tool, {"amount": 1})}
    compose("Refund?", options, new_id="q", workspace="w", asker=asker, limits=Limits())  # type: ignore[arg-type] # a dict
