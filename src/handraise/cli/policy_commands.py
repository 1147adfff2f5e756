"""`handraise policy`: the rules with which a workspace decides which questions need whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from handraise.cli.environment import operator, with_context
from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.policy_report import reading_progress, show_report, show_suggestions
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown, shown_lines, span_of
from handraise.desk.past_questions import replay_history, suggest_rules
from handraise.desk.policy_admin import (
    NO_POLICY,
    checked_document,
    get_version,
    put_policy,
    resume_rule,
)
from handraise.desk.rule_suspensions import SuspendedRule, suspended_rules
from handraise.desk.workspace_shortages import staffing_in
from handraise.model.errors import InvalidPolicy
from handraise.model.json_values import Json, text_problem
from handraise.model.policy_versions import PolicyVersion, policy_changes
from handraise.policies.decide import compile_document
from handraise.policies.policy_file import read_document, write_document
from handraise.policies.policy_replay import ReplayReport
from handraise.policies.rule_shortages import Staffing
from handraise.policies.rules import parse_policy
from handraise.policies.suggestions import Suggestion
from handraise.server import ServerContext
from handraise.wire.policy_records import PolicyChangeRecord, ReplayRecord, changes_between

T = TypeVar("T")

_MOST_BYTES = 5_000_000
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}

app = typer.Typer(
    help="Policies: rules with which a workspace decides which questions need whom.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Since = Annotated[str, typer.Option("--since", metavar="SPAN", help="How far back, such as 30d or 12h.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, in YAML or JSON.")]


@app.command("show")
def show_policy(
    *,
    version: Annotated[
        int | None, typer.Option("--version", metavar="NUMBER", min=1, help="An older version.")
    ] = None,
    workspace: Workspace = None,
) -> None:
    """Show the policy of a workspace as YAML, which `handraise policy apply` reads."""

    async def work(ctx: ServerContext) -> tuple[PolicyVersion | None, Sequence[SuspendedRule]]:
        where = ctx.settings.workspace
        if version is not None:
            return await get_version(ctx.policies, where, version), ()
        current = await ctx.policies.current(where)
        return None if current is None else current.version, suspended_rules(current)

    found, suspended = with_context(work, workspace=workspace)
    if found is None:
        typer.echo("# There is no policy: askers decide whom they ask.")
    else:
        typer.echo(f"# Version {found.version}, by {shown(found.by or 'nobody')}, {when(found.at)}")
    for each in suspended:
        told = f"# Suspended since {when(each.suspension.at)}: {shown(each.name)}"
        typer.echo(f"{told} ({shown(each.suspension.by or 'somebody')} denied a spot check)")
    typer.echo(write_document(NO_POLICY if found is None else found.document), nl=False)


@app.command("apply")
def apply_policy(
    file: PolicyFile,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change, and store nothing.")
    ] = False,
    check_recipients: Annotated[
        bool,
        typer.Option("--check-recipients/--no-check-recipients", help="Refuse unknown people and groups."),
    ] = True,
    workspace: Workspace = None,
) -> None:
    """Replace the policy of a workspace. It applies to every question that is asked from then on."""
    document = _or_problems(lambda: read_policy(file))

    async def work(ctx: ServerContext) -> tuple[Json, dict[str, Json], int, list[Staffing]]:
        where = ctx.settings.workspace
        recipients = ctx.engine.recipients if check_recipients else None
        after = await checked_document(document, workspace=where, recipients=recipients)
        current = await ctx.policies.current(where)
        before, latest = (None, 0) if current is None else (current.version.document, current.version.version)
        staffing = await staffing_in(ctx.directory, where, parse_policy(after))
        if dry_run or before == after:
            return before, after, latest, staffing
        stored, _ = await put_policy(ctx.policies, where, after, by=operator(), expected=latest)
        return before, after, stored.version, staffing

    before, after, version, staffing = _or_problems(lambda: with_context(work, workspace=workspace))
    if before == after:
        typer.echo(f"Nothing changed: this is version {version} already.")
    else:
        show_differences(before, after)
        typer.echo("Nothing was stored." if dry_run else f"This is version {version} of the policy.")
    for each in staffing:
        show_staffing(each.text, is_short=each.is_short)


def show_staffing(text: str, *, is_short: bool) -> None:
    """Warn of a rule for which there are not enough people, or say that there are just enough."""
    line = f"{'Warning' if is_short else 'Note'}: {shown(text)}"
    typer.secho(line, fg=typer.colors.YELLOW if is_short else None, err=True)


@app.command("test")
def replay_policy(
    file: PolicyFile,
    *,
    since: Since = "30d",
    as_json: AsJson = False,
    workspace: Workspace = None,
) -> None:
    """Replay a policy over past questions, without storing it.

    Shows how many questions fewer people would have had, and what would have ended differently. The exit code is 1 if
    the policy would have allowed anything that people denied.
    """
    policy = _or_problems(lambda: compile_document(read_policy(file)))
    start = datetime.now(UTC) - span_of(since)

    async def work(ctx: ServerContext) -> ReplayReport:
        with reading_progress("Replaying", start) as progress:
            return await replay_history(
                ctx.store, ctx.settings.workspace, policy, since=start, progress=progress
            )

    report = with_context(work, workspace=workspace)
    if as_json:
        typer.echo(ReplayRecord.of(report).model_dump_json(indent=2))
    else:
        show_report(report)
    if not report.is_safe:
        raise typer.Exit(REFUSED)


@app.command("suggest")
def suggest_policy(
    *,
    since: Since = "30d",
    workspace: Workspace = None,
) -> None:
    """Suggest rules that would allow what people always approved, as YAML to paste into a policy.

    The rules only observe at first: `handraise policy test` shows what they match. Nothing is stored.
    """
    span = span_of(since)
    start = datetime.now(UTC) - span

    async def work(ctx: ServerContext) -> Sequence[Suggestion]:
        with reading_progress("Reading", start) as progress:
            return await suggest_rules(ctx.store, ctx.settings.workspace, since=start, progress=progress)

    found = with_context(work, workspace=workspace)
    if not found:
        typer.echo("# No agent and tool has at least 20 decisions, all approved by people.")
        return
    show_suggestions(found, span / timedelta(days=1))
    typer.echo(write_document({"rules": [each.rule for each in found]}), nl=False)


@app.command("history")
def show_history(
    *,
    limit: Annotated[int, typer.Option("--limit", metavar="NUMBER", min=1, max=500)] = 20,
    workspace: Workspace = None,
) -> None:
    """List the versions of the policy, the latest first: who stored them, when, and what they changed."""

    async def work(ctx: ServerContext) -> Sequence[PolicyVersion]:
        return await ctx.policies.versions(ctx.settings.workspace, before=None, limit=limit + 1)

    found = with_context(work, workspace=workspace)
    if not found:
        typer.echo("There is no policy yet.")
        return
    rows = []
    for place, each in enumerate(found[:limit]):
        before = found[place + 1].document if place + 1 < len(found) else None
        rows.append([str(each.version), when(each.at), each.by or "", _in_short(before, each.document)])
    show_table(["VERSION", "WHEN", "BY", "CHANGES"], rows)


@app.command("resume-rule")
def resume_suspended_rule(
    name: Annotated[str, typer.Argument(metavar="RULE", help="The name of the rule.")],
    *,
    workspace: Workspace = None,
) -> None:
    """Let a rule that was suspended by a spot check allow questions again."""

    async def work(ctx: ServerContext) -> None:
        await resume_rule(ctx.policies, ctx.settings.workspace, name, by=operator())

    if text_problem(name):
        raise CommandError("The name of a rule is plain text.")
    with_context(work, workspace=workspace)
    typer.echo(f"The rule {shown(name)} allows questions again.")


def read_policy(file: Path) -> Any:
    """The document in a file. JSON is YAML too."""
    with file.open("rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise CommandError(f"{shown(str(file))} is larger than {_MOST_BYTES:,} bytes.")
    return read_document(content)


def show_differences(before: Json, after: Json, *, indent: str = "") -> None:
    """Print which rules are added, changed and removed, and what is different in those that changed."""
    changes = policy_changes(before, after)
    for change in changes_between(before, after):
        each = changes[change.part]
        typer.echo(indent + _line(change))
        if change.change == "changed":
            _show_lines(f"{indent}    -", each["from"])
        if change.change != "removed":
            _show_lines(f"{indent}    +", each["to"])


def _line(change: PolicyChangeRecord) -> str:
    return f"{_SIGNS[change.change]} {shown(change.part)} ({change.change})"


def _show_lines(sign: str, part: Json) -> None:
    for line in shown_lines(write_document(part).removesuffix("...\n")):
        if line.strip():
            typer.echo(f"{sign} {line}")


def _in_short(before: Json, after: Json) -> str:
    return ", ".join(f"{_SIGNS[each.change]} {each.part}" for each in changes_between(before, after))


def _or_problems(work: Callable[[], T]) -> T:
    """The result of `work`; if the policy is invalid, print each problem and exit."""
    try:
        return work()
    except InvalidPolicy as error:
        typer.echo("This policy cannot be used:", err=True)
        for problem in error.problems:
            typer.echo("\n".join(f"  {line}" for line in shown_lines(str(problem))), err=True)
        raise typer.Exit(REFUSED) from None
