"""`handraise retention`, `handraise hold` and `handraise erase`: how long things are kept, and removing them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Annotated

import typer

from handraise.cli.environment import operator, with_context
from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown
from handraise.desk.retention_admin import Erasure, concerned, place_hold, read_rule
from handraise.desk.retention_admin import erase as erase_all
from handraise.model.errors import InvalidRequest
from handraise.model.json_values import text_problem
from handraise.model.seals import Hold, Rule
from handraise.server import ServerContext

retention = typer.Typer(
    help="Retention: how long a workspace keeps settled questions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
holds = typer.Typer(
    help="Legal holds: nothing under a hold is removed or erased.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@retention.command("show")
def show_rule(*, workspace: Workspace = None) -> None:
    """Show how long a workspace keeps settled questions."""

    async def work(ctx: ServerContext) -> tuple[Rule | None, float | None, str]:
        where = ctx.settings.workspace
        return await ctx.ledger.rules(where), ctx.settings.keep_settled_days, where

    rule, default, where = with_context(work, workspace=workspace)
    if rule is None:
        kept = "for ever" if default is None else f"for {default:g} days"
        typer.echo(
            f"{shown(where)} has no rule of its own: settled questions are kept {kept}, as by HANDRAISE_KEEP_SETTLED_DAYS."
        )
    else:
        typer.echo(f"{shown(where)} keeps settled questions {_span(rule)}.")


@retention.command("set")
def set_rule(
    days: Annotated[str, typer.Argument(metavar="DAYS", help="The number of days, or `forever`.")],
    *,
    workspace: Workspace = None,
) -> None:
    """Set a rule for a workspace, which overrides HANDRAISE_KEEP_SETTLED_DAYS."""
    rule = _rule(days)

    async def work(ctx: ServerContext) -> str:
        await ctx.ledger.put_rule(ctx.settings.workspace, rule, by=operator())
        return ctx.settings.workspace

    where = with_context(work, workspace=workspace)
    typer.echo(f"{shown(where)} keeps settled questions {_span(rule)} from now on.")


@retention.command("run")
def run_rules() -> None:
    """Remove settled questions that are older than the rules allow, in all workspaces.

    Servers do so by themselves, unless their PostgreSQL role is not a member of `handraise_keeper`. Then run
    this from time to time with a role that is.
    """

    async def work(ctx: ServerContext) -> int:
        done = 0
        while number := await ctx.engine.tidy():
            done += number
        return done

    typer.echo(f"Done: {with_context(work)} settled questions were removed.")


@retention.command("unset")
def unset_rule(*, workspace: Workspace = None) -> None:
    """Remove a workspace's rule: HANDRAISE_KEEP_SETTLED_DAYS counts again."""

    async def work(ctx: ServerContext) -> str:
        await ctx.ledger.put_rule(ctx.settings.workspace, None, by=operator())
        return ctx.settings.workspace

    typer.echo(f"{shown(with_context(work, workspace=workspace))} no longer has a rule of its own.")


@holds.command("add")
def add_hold(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hold's name, such as a case or a ticket.")],
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")],
    question: Annotated[
        str | None,
        typer.Option("--question", metavar="ID", help="Hold only this question, not the whole workspace."),
    ] = None,
    workspace: Workspace = None,
) -> None:
    """Prevent a workspace, or one question, from being removed or erased until the hold is lifted."""

    async def work(ctx: ServerContext) -> Hold | None:
        try:
            return await place_hold(
                ctx.ledger, ctx.settings.workspace, name, question=question, reason=reason, by=operator()
            )
        except InvalidRequest:
            raise CommandError("A hold's name and reason must be plain text.") from None

    hold = with_context(work, workspace=workspace)
    if hold is None:
        raise CommandError(f"There is another hold {name!r} already. Look at: handraise hold list")
    what = f"Question {shown(question)}" if question else f"All of {shown(hold.workspace)}"
    typer.echo(f"{what} is held, until: handraise hold lift {shown(name)}")


@holds.command("list")
def list_holds(*, workspace: Workspace = None) -> None:
    """List the holds."""

    async def work(ctx: ServerContext) -> Sequence[Hold]:
        return await ctx.ledger.holds(ctx.settings.workspace)

    found = with_context(work, workspace=workspace)
    if not found:
        typer.echo("Nothing is held.")
        return
    show_table(
        ["NAME", "WHAT", "SINCE", "BY", "REASON"],
        [
            [each.name, each.question_id or "everything", when(each.since), each.by, each.reason]
            for each in found
        ],
    )


@holds.command("lift")
def lift_hold(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hold's name.")],
    *,
    workspace: Workspace = None,
) -> None:
    """Lift a hold. Questions that are past their time are removed at the next cleanup."""

    async def work(ctx: ServerContext) -> bool:
        return not text_problem(name) and await ctx.ledger.lift(ctx.settings.workspace, name, by=operator())

    if not with_context(work, workspace=workspace):
        raise CommandError(f"There is no hold {name!r} here. Look at: handraise hold list")
    typer.echo(f"The hold {shown(name)} is lifted.")


def erase(
    person: Annotated[
        str | None, typer.Argument(metavar="PERSON", help="A person's name, as `people list` shows it.")
    ] = None,
    *,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question", metavar="ID", help="Erase this question, no matter whom it concerns; once for each."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase. Without it, the command only shows what it would erase.")
    ] = False,
    workspace: Workspace = None,
) -> None:
    """Permanently erase a person, with every question that names them or that they took part in, or single questions.

    The audit trail records that something was erased, but not what it was.
    """
    if person is None and not question:
        raise CommandError("Say whom or what to erase: a PERSON, or --question ID.")
    if any(map(text_problem, (person or "", *(question or ())))):
        raise CommandError("There is no person and no question with such a name.")

    async def work(ctx: ServerContext) -> Erasure:
        where, asked = ctx.settings.workspace, question or ()
        if not yes:
            ids = await concerned(ctx.ledger, where, person=person, questions=asked)
            return Erasure(ids, (), is_overwritten=False)
        return await erase_all(
            ctx.ledger, ctx.engine.attachments, where, person=person, questions=asked, by=operator()
        )

    done = with_context(work, workspace=workspace)
    ids, gone = done.ids, done.erased
    whom = f"{shown(person)}, and " if person is not None else ""
    if not yes:
        typer.echo(f"This would erase {whom}{_questions(ids)}, with answers and history, permanently.")
        typer.echo("To erase, run the same command with --yes.")
        return
    typer.echo(f"Erased {whom}{_questions(gone)}. The next seal records it.")
    if not done.is_overwritten:
        typer.echo("The database overwrites the deleted data later: see docs/how-to/audit.md.")
    if left := done.left:
        typer.echo(f"{len(left)} are under a hold, or do not exist: {shown(', '.join(left[:5]))}", err=True)
        raise typer.Exit(REFUSED)


def _questions(ids: Collection[str]) -> str:
    return "1 question" if len(ids) == 1 else f"{len(ids)} questions"


def _rule(days: str) -> Rule:
    try:
        return read_rule(days)
    except ValueError as error:
        raise CommandError(f"{error}.") from None


def _span(rule: Rule) -> str:
    return "for ever" if rule.keep is None else f"for {rule.keep / timedelta(days=1):g} days"
