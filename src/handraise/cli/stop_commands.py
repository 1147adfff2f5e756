"""`handraise stop` and `handraise resume`: on a store as its operator, at a server as a signed-in administrator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.session import Workspace
from handraise.cli.sign_in_commands import call_server
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown
from handraise.model.json_values import text_problem
from handraise.model.stops import Stop
from handraise.wire.stop_records import PutStop, StopList, StopRecord

Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent.")]
Tool = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only approvals of this tool.")]


def stop(
    *,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason. Agents and people read it.")],
    agent: Agent = None,
    tool: Tool = None,
    workspace: Workspace = None,
) -> None:
    """Stop an agent, a tool, a tool of an agent, or without both the whole workspace.

    When this command ends, nothing that it covers is asked, approved or executed any more, on any server. Denying,
    declining and withdrawing still work, and so does everything else.
    """
    for name, text in (("--why", why), ("--agent", agent), ("--tool", tool)):
        if text is not None and (problem := "is empty" if not text.strip() else text_problem(text)):
            raise CommandError(f"{name} {problem}.")
    begun = _begin(PutStop(agent=agent, tool=tool, why=why), workspace)
    typer.echo(f"Stopped {shown(begun.scope)}, since {when(begun.at)}: {shown(begun.why)}")
    typer.echo(f"To resume: handraise resume {begun.id}")


def resume(
    *,
    stop_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The stop's id. Without it, the stops are listed.")
    ] = None,
    agent: Agent = None,
    tool: Tool = None,
    everything: Annotated[bool, typer.Option("--all", help="End all stops.")] = False,
    workspace: Workspace = None,
) -> None:
    """End a stop: by its id, or by exactly the agent and tool that were stopped. Without any, list what is stopped."""
    found = _stops(workspace)
    ended = [
        each
        for each in found
        if everything
        or each.id == stop_id
        or (stop_id is None and (agent or tool) and (each.agent, each.tool) == (agent, tool))
    ]
    if stop_id is None and not (agent or tool or everything):
        _show(found)
        return
    if not ended:
        raise CommandError("There is no such stop. To see what is stopped: handraise resume")
    for each in ended:
        _end(each.id, workspace)
        typer.echo(f"Resumed {shown(each.scope)}.")


def _show(stops: Sequence[Stop]) -> None:
    if not stops:
        typer.echo("Nothing is stopped.")
        return
    show_table(
        ["ID", "AGENT", "TOOL", "SINCE", "BY", "WHY"],
        [
            [each.id, each.agent or "all", each.tool or "all", when(each.at), each.by or "", each.why]
            for each in stops
        ],
    )


def _begin(stop: PutStop, workspace: str | None) -> Stop:
    if _at_server():
        where, said = call_server("POST", "/v1/stops", workspace=workspace, json=stop.model_dump())
        return StopRecord.model_validate_json(said).stop(where)
    # Only on a store: the server's parts take long to import.
    from handraise.cli.environment import operator, with_context  # noqa: PLC0415

    return with_context(
        lambda ctx: ctx.policies.stop(
            ctx.settings.workspace, agent=stop.agent, tool=stop.tool, why=stop.why, by=operator()
        ),
        workspace=workspace,
    )


def _stops(workspace: str | None) -> Sequence[Stop]:
    if _at_server():
        where, said = call_server("GET", "/v1/stops", workspace=workspace)
        return [each.stop(where) for each in StopList.model_validate_json(said).stops]
    from handraise.cli.environment import with_context  # noqa: PLC0415 -- only on a store

    return with_context(lambda ctx: ctx.policies.stops(ctx.settings.workspace), workspace=workspace)


def _end(stop_id: str, workspace: str | None) -> None:
    if _at_server():
        call_server("DELETE", f"/v1/stops/{stop_id}", workspace=workspace)
        return
    from handraise.cli.environment import operator, with_context  # noqa: PLC0415 -- only on a store

    with_context(
        lambda ctx: ctx.policies.resume(ctx.settings.workspace, stop_id, by=operator()), workspace=workspace
    )


def _at_server() -> bool:
    return os.environ.get("HANDRAISE_URL", "").startswith(("http://", "https://"))
