"""One agent for three frameworks: it asks how to deploy, then deploys if a person approves.

This file knows no framework. Each of the three beside it says the same in the words of one: run one, kill it, answer,
and run it again.

Run it with: python with_langgraph.py (or with_openai_agents.py, with_pydantic_ai.py)
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import handraise

TASK = "Deploy v2."


def deploy(strategy: str, replicas: int) -> str:
    """Deploy the new version."""
    return f"deployed as {strategy} with {replicas} replicas"


def think(results: dict[str, str]) -> tuple[str, dict[str, Any]] | str:
    """What a model would do, given the results of its tools by call id: call the next one, or say something.

    The id of a call is the name of its tool.
    """
    if "ask_human" not in results:
        return "ask_human", {"question": "Which strategy?", "choices": ["Canary", "Rolling"]}
    if "deploy" not in results:
        return "deploy", {"strategy": json.loads(results["ask_human"])["text"], "replicas": 3}
    return results["deploy"]


async def play(agent: Any, task: Any, run: Callable[..., Awaitable[Any]]) -> Any:
    """The same for all: a desk, a key, and who may change what."""
    about = {"deploy": {"editable": ["replicas"]}}
    async with handraise.open_desk() as desk:
        return await run(agent, task, desk=desk, key="deploy-v2", approvals=about)
