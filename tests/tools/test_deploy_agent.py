"""The example with a real client of a model API: killed while it waits, answered elsewhere, carried on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SOON = 60


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres")
        return found
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.mark.slow("starts four processes; tests/tools/test_ask_tools.py carries on after a restart in one")
def test_a_model_loop_survives_its_death_while_a_person_thinks(address: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "deploy_agent.py", address],
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = [line.split(": ", 1)[1].strip() for line in done.stdout.splitlines()]
    first, worked, asked, killed, answered, second, carried_on, ended = steps
    assert (first, second) == ("200 legal", "200 legal")
    assert worked == "looked up the running version"
    assert asked.endswith("How shall I deploy shop v2?")
    assert killed == "exit code -9"
    assert answered.endswith("{'role': 'tool', 'tool_call_id': 'call_2', 'content': 'Canary'}")
    assert carried_on == "Deployed shop v2 over v1 as Canary."
    assert ended == "exit code 0"


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, EXAMPLES / "scripted_openai.py"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate(timeout=SOON)


def turn(*names: str) -> dict[str, Any]:
    calls = [
        {"id": f"{each}_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for each, name in (name.split(" ") for name in names)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([turn("call look")], "no result for"),
        ([result("call_1")], "a result without its call"),
        ([turn("call look"), {"role": "user", "content": "And?"}], "before the results of"),
        ([turn("hitl client.humanIntervention"), result("hitl_1")], "a trace of client."),
        ([turn("hitl look"), result("hitl_1")], "a trace of hitl_"),
    ],
)
def test_the_scripted_model_refuses_what_a_real_one_would(
    model_url: str, messages: list[Any], why: str
) -> None:
    with (
        openai.OpenAI(base_url=model_url, api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match=why),
    ):
        client.chat.completions.create(model="scripted", messages=messages)
