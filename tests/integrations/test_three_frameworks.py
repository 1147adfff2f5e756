"""One script asks the same two questions in three frameworks, and carries on in a new process in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from handraise import Approval, open_desk
from tests.integrations.cells import more_processes
from tests.integrations.processes import ROOT, asked, started

FOLDER = "examples/same_question_three_frameworks"
STRATEGY = {
    "kind": "choice",
    "options": [{"id": name, "label": name} for name in ("Canary", "Rolling")],
    "allow_other": True,
}
REPLICAS = {
    "name": "replicas",
    "form": {"kind": "open", "type": "integer", "min_length": 1},
    "required": True,
    "default": 3,
}


@pytest.mark.parametrize("name", ["with_langgraph", "with_openai_agents", "with_pydantic_ai"])
@more_processes
async def test_the_same_question_in_three_frameworks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_desk(url) as desk:
        async with started(ROOT / f"{FOLDER}/{name}.py", HANDRAISE_URL=url) as first:
            [which] = await asked(desk, "deploy-v2")
            await first.kill()
        assert which.prompt == "Which strategy?"
        assert which.form.model_dump(mode="json", exclude_none=True) == STRATEGY
        await desk.answer(which.id, "Canary", by="ana")
        async with started(ROOT / f"{FOLDER}/{name}.py", HANDRAISE_URL=url) as second:
            [may] = await asked(desk, "deploy-v2")
            assert may.prompt == "May I run deploy?"
            assert isinstance(may.form, Approval)
            assert may.form.action.arguments == {"strategy": "Canary", "replicas": 3}
            assert [each.model_dump(mode="json", exclude_none=True) for each in may.form.editable] == [
                REPLICAS
            ]
            await desk.answer(may.id, {"decision": "approve", "arguments": {"replicas": 5}}, by="ben")
            assert await second.rest() == ["deployed as Canary with 5 replicas"]
