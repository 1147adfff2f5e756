"""Apply a file to a workspace, show what it would change, and write the file of what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handraise.config.config_document import WorkspaceConfig, parse_config
from handraise.config.config_plan import ConfigChange, ConfigPlan, plan_config
from handraise.config.config_state import ConfigPorts, config_of, read_state
from handraise.config.config_target import ConfigTarget
from handraise.model.json_values import Json
from handraise.model.people import OPERATOR


async def preview_config(
    ports: ConfigPorts, document: Mapping[str, Any], *, workspace: str = "default", prune: bool = False
) -> tuple[ConfigChange, ...]:
    """What a configuration would change; nothing is stored. Raises `InvalidRequest` with every problem.

    `ports` are those of a store, such as `open_backend` opens. With `prune`, what a part of the document does not name is removed.
    """
    target = ConfigTarget(ports=ports, workspace=workspace, by=OPERATOR)
    return (await plan_config(target, parse_config(document), prune=prune)).changes


async def apply_config(
    ports: ConfigPorts,
    document: Mapping[str, Any],
    *,
    workspace: str = "default",
    prune: bool = False,
    by: str = OPERATOR,
) -> tuple[ConfigChange, ...]:
    """Make a workspace what a configuration says, and return what that changed; nothing if it was so already.

    Every change is an event of the workspace with `by`. If it is interrupted, what was done stays, and applying the
    document again does the rest. Raises `InvalidRequest` before anything is changed, and `PreconditionFailed` if
    somebody changes the same at the same time.
    """
    target = ConfigTarget(ports=ports, workspace=workspace, by=by)
    return (await apply_to(target, parse_config(document), prune=prune)).changes


async def export_config(ports: ConfigPorts, *, workspace: str = "default") -> dict[str, Json]:
    """The document of what is configured, without secrets. Applying it changes nothing."""
    return config_of(await read_state(ports, workspace)).document()


async def apply_to(target: ConfigTarget, config: WorkspaceConfig, *, prune: bool) -> ConfigPlan:
    """Plan the changes and make them, one after the other."""
    plan = await plan_config(target, config, prune=prune)
    await run_plan(plan)
    return plan


async def run_plan(plan: ConfigPlan) -> None:
    """Do the steps of a plan in their order."""
    for step in plan.steps:
        await step()
