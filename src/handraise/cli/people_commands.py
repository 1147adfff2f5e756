"""`handraise people` and `handraise groups`: who answers."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pydantic
import typer

from handraise.cli.account_commands import find
from handraise.cli.departure_text import show_departure
from handraise.cli.environment import operator, settings_with, with_context
from handraise.cli.exit_codes import CommandError
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_table, when
from handraise.desk.departures import Departure, departure_of
from handraise.desk.everybody import everybody
from handraise.desk.people_rights import disable_person_safely, remove_person_safely
from handraise.desk.public_holidays import check_holidays
from handraise.model.errors import MissingExtra, PermissionDenied
from handraise.model.group_calendars import FILE, WHOLE_WORKSPACE, WorkspaceCalendars
from handraise.model.identities import Person, Role, Session
from handraise.model.json_values import text_problem
from handraise.model.passkey_signatures import Passkey
from handraise.model.people import Responder, link_maker, responder_of
from handraise.model.visible import visible_line
from handraise.model.working_hours import WorkingHours
from handraise.server import ServerContext
from handraise.server.api.calendar_routes import follow_rota, rota_record
from handraise.server.auth.issuer import issue_link, issue_question_link
from handraise.server.mail_addresses import sync_email_address
from handraise.server.rota_expansion import MAX_BYTES
from handraise.server.rota_refresh import rota_problem
from handraise.server.web.sign_in import sessions_of
from handraise.wire.calendar_records import RotaRecord
from handraise.wire.records import LinkRecord, QuestionLinkRecord
from handraise.wire.requests import CreateQuestionLink, PutGroup, PutPerson

app = typer.Typer(
    help="People who answer, and how they sign in.", no_args_is_help=True, rich_markup_mode=None
)
groups = typer.Typer(
    help="Groups of people: any of them may answer a question to group:NAME.", no_args_is_help=True
)

_A_MOMENT = 0.5
_ASKED = CreateQuestionLink()
"""The defaults of a question link."""

Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The address of your server, such as https://handraise.example.com. Default: HANDRAISE_PUBLIC_URL, "
        "or the address on which `handraise serve` listens with the settings of this shell.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Their name as a recipient of questions.")]


@app.command()
def add(
    name: Name,
    *,
    email: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Their e-mail address: OIDC and e-mail find them by it."),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="They administer the workspace.")] = False,
    workspace: Workspace = None,
) -> None:
    """Add somebody who may answer."""
    _check_name(name)
    try:
        asked = PutPerson(name=name, email=email, role=Role.ADMIN if admin else Role.MEMBER)
    except pydantic.ValidationError as error:
        raise CommandError(f"{email!r} is not an e-mail address.") from error

    async def work(ctx: ServerContext) -> Person | None:
        where = ctx.settings.workspace
        if await ctx.directory.find_person(where, name) is not None:
            raise CommandError(f"There is somebody called {name!r} already.")
        person = await ctx.directory.put_person(
            where, name, name=asked.name, email=asked.email, role=asked.role, by=operator()
        )
        await sync_email_address(ctx, None, person, by=operator())
        return person

    if with_context(work, workspace=workspace) is None:
        raise CommandError(f"{email} belongs to somebody else here.")
    typer.echo(
        f"{visible_line(name)} is added. To make a sign-in link: handraise people link {visible_line(name)}"
    )


@app.command()
def link(name: Name, *, server: Server = None, workspace: Workspace = None) -> None:
    """Make a sign-in link for somebody. It works once."""

    async def work(ctx: ServerContext) -> LinkRecord | None:
        if text_problem(name):
            return None
        return await issue_link(
            ctx, ctx.settings.workspace, person=name, purpose="sign-in", vouched_by=operator()
        )

    made = with_context(work, workspace=workspace, public_url=server)
    if made is None:
        raise CommandError(f"There is nobody called {name!r} here. Add them: handraise people add NAME")
    typer.echo(
        f"With this link {visible_line(name)} signs in. It works once, until {when(made.expires_at)}.\n"
        "Send it to them and to nobody else:\n"
    )
    typer.secho(made.url, bold=True)
    _warn_of_a_guess(server)


@app.command("question-link")
def question_link(
    name: Name,
    question_id: Annotated[str, typer.Argument(metavar="QUESTION", help="The question's id.")],
    *,
    server: Server = None,
    workspace: Workspace = None,
) -> None:
    """Make a link with which somebody can answer one question, and do nothing else."""

    async def work(ctx: ServerContext) -> QuestionLinkRecord | None:
        where = ctx.settings.workspace
        question = await ctx.desk.scoped(where).get(question_id)
        person = None if text_problem(name) else await ctx.directory.find_person(where, name)
        if person is None:
            return None
        return await issue_question_link(
            ctx,
            question,
            person,
            channel=_ASKED.channel,
            by=operator(),
            lasts=timedelta(seconds=_ASKED.expires_in),
        )

    made = with_context(work, workspace=workspace, public_url=server)
    if made is None:
        raise CommandError(f"There is nobody called {name!r} here. Add them: handraise people add NAME")
    typer.echo(
        f"With this link {visible_line(name)} answers that one question, until {when(made.expires_at)}.\n"
        "Send it to them and to nobody else:\n"
    )
    typer.secho(made.url, bold=True)
    _warn_of_a_guess(server)


def _warn_of_a_guess(server: str | None) -> None:
    """Warn if the server's address is only the default and no server answers there."""
    settings = settings_with(public_url=server)
    if settings.model_fields_set & {"public_url", "host", "port"}:
        return
    with suppress(OSError), socket.create_connection((settings.host, settings.port), timeout=_A_MOMENT):
        return
    typer.echo(
        f"\nNo server answers at {settings.base_url}, the default address. If yours has another one, make the link again "
        "with --server ADDRESS, or set HANDRAISE_PUBLIC_URL here too.",
        err=True,
    )


@app.command("list")
def list_people(*, workspace: Workspace = None) -> None:
    """List everybody, with their groups."""

    async def work(ctx: ServerContext) -> list[Person]:
        return [each async for each in everybody(ctx.directory, ctx.settings.workspace)]

    people = with_context(work, workspace=workspace)
    if not people:
        typer.echo("There is nobody yet. Add somebody: handraise people add NAME")
        return
    has_state = any(each.disabled_at for each in people)
    show_table(
        ["NAME", "ROLE", "E-MAIL", "GROUPS", *(["STATE"] if has_state else [])],
        [
            [
                each.id if each.name == each.id else f"{each.id} ({each.name})",
                each.role,
                each.email or "",
                ", ".join(sorted(each.groups)),
                *(["disabled" if each.disabled_at else ""] if has_state else []),
            ]
            for each in people
        ],
    )


@app.command()
def remove(name: Name, *, workspace: Workspace = None) -> None:
    """Remove somebody, with their sessions, links, grants, groups and addresses.

    Their answers stay, and so do questions that name them. To erase those too: handraise erase NAME
    """

    async def work(ctx: ServerContext) -> Departure:
        person = await find_person(ctx, name)
        left = await departure_of(ctx, person)
        try:
            await remove_person_safely(ctx, person, by=operator())
        except PermissionDenied:
            raise _only_administrator(name) from None
        return left

    left = with_context(work, workspace=workspace)
    typer.echo(f"{visible_line(name)} is removed. Their answers stay.")
    show_departure(name, left)


@app.command()
def disable(name: Name, *, workspace: Workspace = None) -> None:
    """Disable somebody at once: they can do nothing until they are enabled again.

    Their sessions, links and grants end, and their votes on open questions do not count. Their groups stay.
    """

    async def work(ctx: ServerContext) -> Departure:
        person = await find_person(ctx, name)
        left = await departure_of(ctx, person)
        try:
            await disable_person_safely(ctx, person, by=operator())
        except PermissionDenied:
            raise _only_administrator(name) from None
        return left

    left = with_context(work, workspace=workspace)
    typer.echo(
        f"{visible_line(name)} is disabled. To enable them again: handraise people enable {visible_line(name)}"
    )
    show_departure(name, left)


@app.command()
def enable(name: Name, *, workspace: Workspace = None) -> None:
    """Enable somebody who was disabled. They sign in again; grants stay revoked."""

    async def work(ctx: ServerContext) -> None:
        await find_person(ctx, name)
        await ctx.directory.enable_person(ctx.settings.workspace, name, by=operator())

    with_context(work, workspace=workspace)
    typer.echo(f"{visible_line(name)} is enabled and can sign in.")


@app.command()
def sessions(name: Name, *, workspace: Workspace = None) -> None:
    """List where somebody is signed in."""

    async def work(ctx: ServerContext) -> Sequence[Session]:
        await find_person(ctx, name)
        return await sessions_of(ctx, ctx.settings.workspace, name)

    found = with_context(work, workspace=workspace)
    if not found:
        typer.echo(f"{visible_line(name)} is not signed in anywhere.")
        return
    show_table(
        ["SESSION", "HOW", "LINK MADE BY", "SINCE", "UNTIL"],
        [
            [
                each.id,
                each.how,
                link_maker(each.vouched_by) or "",
                when(each.created_at),
                when(each.expires_at),
            ]
            for each in found
        ],
    )


@app.command()
def passkeys(
    name: Name,
    *,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Remove this one, such as one that they have lost.")
    ] = None,
    workspace: Workspace = None,
) -> None:
    """List the passkeys of somebody, who adds them in the inbox."""

    async def work(ctx: ServerContext) -> Sequence[Passkey]:
        where = ctx.settings.workspace
        await find_person(ctx, name)
        if remove and not await ctx.directory.remove_passkey(where, remove, person=name, by=operator()):
            raise CommandError(f"{name!r} has no such passkey. To see theirs: handraise people passkeys NAME")
        return await ctx.directory.passkeys(where, name)

    found = with_context(work, workspace=workspace)
    if remove:
        typer.echo(f"Removed a passkey of {visible_line(name)}.")
    if not found:
        typer.echo(f"{visible_line(name)} has no passkey.")
        return
    show_table(
        ["NAME", "FOR", "ADDED", "LAST USED", "LINK MADE BY", "ID"],
        [
            [
                visible_line(each.name),
                each.domain,
                when(each.created_at),
                when(each.last_used_at) if each.last_used_at else "",
                link_maker(each.vouched_by) or "",
                each.id,
            ]
            for each in found
        ],
    )


@app.command("sign-out")
def sign_out(
    name: Name,
    *,
    session: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only this one, as `handraise people sessions` shows it."),
    ] = None,
    workspace: Workspace = None,
) -> None:
    """End the sessions of somebody, who can sign in again with a new link."""

    async def work(ctx: ServerContext) -> int:
        where, number = ctx.settings.workspace, 0
        await find_person(ctx, name)
        while found := [
            each.id for each in await sessions_of(ctx, where, name) if session in (None, each.id)
        ]:
            for each in found:
                number += await ctx.directory.end_session(where, each, by=operator())
        return number

    number = with_context(work, workspace=workspace)
    if session is not None and not number:
        raise CommandError(f"{name!r} has no such session. To see theirs: handraise people sessions NAME")
    typer.echo(f"Ended {number} {'session' if number == 1 else 'sessions'} of {visible_line(name)}.")


app.command("find")(find)


@groups.command("list")
def list_groups(*, workspace: Workspace = None) -> None:
    """List every group, with its people."""

    async def work(ctx: ServerContext) -> Mapping[str, Sequence[str]]:
        return await ctx.directory.groups(ctx.settings.workspace)

    found = with_context(work, workspace=workspace)
    if not found:
        typer.echo("There is no group yet. Make one: handraise groups set NAME PERSON")
        return
    show_table(["GROUP", "PEOPLE"], [[name, ", ".join(people)] for name, people in found.items()])


@groups.command("set")
def set_group(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The group's name, without group:")],
    people: Annotated[
        list[str] | None, typer.Argument(metavar="PERSON", help="All who belong to it.")
    ] = None,
    *,
    workspace: Workspace = None,
) -> None:
    """Set the people of a group. Without people, the group is removed."""
    names = PutGroup(people=tuple(people or ())).people
    if text_problem(name):
        raise CommandError(f"No group can be called {name!r}.")

    async def work(ctx: ServerContext) -> None:
        where = ctx.settings.workspace
        for each in names:
            if text_problem(each) or await ctx.directory.find_person(where, each) is None:
                raise CommandError(
                    f"There is nobody called {each!r} here. Add them: handraise people add NAME"
                )
        await ctx.directory.put_group(where, name, names, by=operator())

    with_context(work, workspace=workspace)
    members = ", ".join(map(visible_line, sorted(set(names))))
    typer.echo(
        f"group:{visible_line(name)} is {members}." if names else f"group:{visible_line(name)} is removed."
    )


@groups.command("hours")
def set_hours(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The group's name, without group:. Without it, the whole workspace."
        ),
    ] = None,
    *,
    hours: Annotated[
        str | None, typer.Option(metavar="HOURS", help="Such as 'Mon-Thu 09:00-17:30, Fri 09:00-15:00'.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="The time zone, such as Europe/Berlin.")
    ] = None,
    country: Annotated[
        str | None, typer.Option(metavar="CODE", help="Whose public holidays are free, such as DE.")
    ] = None,
    subdivision: Annotated[
        str | None, typer.Option(metavar="CODE", help="The part of the country, such as BY.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the working hours.")] = False,
    workspace: Workspace = None,
) -> None:
    """Set when a group works. Without options, list all working hours.

    Timelines may count working time, such as "2 working hours". Outside its hours, a group gets no reminders, except at
    high risk.
    """
    group = name or WHOLE_WORKSPACE
    if name is not None and (not name.strip() or text_problem(name)):
        raise CommandError(f"No group can be called {name!r}.")
    if hours is None and not remove:
        _show_hours(workspace)
        return
    asked = None if remove else _hours(hours, zone, country, subdivision)

    async def work(ctx: ServerContext) -> None:
        await ctx.directory.put_hours(ctx.settings.workspace, group, asked, by=operator())

    with_context(work, workspace=workspace)
    whose = f"group:{visible_line(name)}" if name else "The workspace"
    said = (
        "has no working hours" if asked is None else f"works {visible_line(asked.hours)} in {asked.time_zone}"
    )
    typer.echo(f"{whose} {said}.")


@groups.command("rota")
def set_rota(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The group's name, without group:")],
    *,
    calendar: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The https address of an iCalendar file.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An iCalendar file.", exists=True, dir_okay=False)
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Follow no calendar: notify the whole group.")
    ] = False,
    workspace: Workspace = None,
) -> None:
    """Let a group follow a calendar: only those on duty are notified. Without options, show who is on duty.

    An event names the person as its attendee, or in its title. Everybody in the group may still answer.
    """
    if not name.strip() or text_problem(name):
        raise CommandError(f"No group can be called {name!r}.")
    if (calendar is not None) + (file is not None) + remove > 1:
        raise CommandError("Give one of --calendar, --file and --remove.")
    text = None if file is None else _calendar_text(file)

    async def work(ctx: ServerContext) -> RotaRecord:
        where = ctx.settings.workspace
        if remove:
            await ctx.directory.put_rota(where, name, None, by=operator())
        elif calendar is not None and (problem := rota_problem(calendar, ctx.settings)):
            raise CommandError(f"--calendar {problem}.")
        elif calendar is not None or text is not None:
            return await follow_rota(ctx, where, name, calendar or FILE, text=text, by=operator())
        return rota_record(name, await ctx.directory.calendars(where))

    found = with_context(work, workspace=workspace)
    group = f"group:{visible_line(name)}"
    if found.source is None:
        typer.echo(f"{group} follows no calendar.")
        return
    typer.echo(f"{group} follows a calendar from {visible_line(found.source)}.")
    if found.problem is not None:
        typer.echo(f"It cannot be used, so the whole group is notified: {visible_line(found.problem)}.")
    elif found.on_duty:
        typer.echo(f"On duty now: {', '.join(map(visible_line, found.on_duty))}.")
    else:
        typer.echo("Nobody is on duty now, so the whole group is notified.")


def _calendar_text(file: Path) -> str:
    if file.stat().st_size > MAX_BYTES:
        raise CommandError(f"{file} is longer than 1 MB.")
    text = file.read_text(errors="replace")
    if problem := text_problem(text):
        raise CommandError(f"{file} {problem}.")
    return text


def _hours(hours: str | None, zone: str | None, country: str | None, subdivision: str | None) -> WorkingHours:
    if zone is None:
        raise CommandError("In which time zone? Give it, such as: --zone Europe/Berlin")
    try:
        asked = WorkingHours(time_zone=zone, hours=hours or "", country=country, subdivision=subdivision)
        check_holidays(asked)
    except pydantic.ValidationError as error:
        found = error.errors()[0]
        where = " ".join(str(each) for each in found["loc"])
        raise CommandError(f"{where or 'This'}: {found['msg'].removeprefix('Value error, ')}.") from None
    except (MissingExtra, ValueError) as error:
        raise CommandError(f"{error}.") from None
    return asked


def _show_hours(workspace: str | None) -> None:
    async def work(ctx: ServerContext) -> WorkspaceCalendars:
        return await ctx.directory.calendars(ctx.settings.workspace)

    found = [
        each for each in with_context(work, workspace=workspace).groups.values() if each.hours is not None
    ]
    if not found:
        typer.echo("No group has working hours. Set some: handraise groups hours NAME --hours … --zone …")
        return
    show_table(
        ["GROUP", "HOURS", "TIME ZONE", "HOLIDAYS"],
        [
            [
                each.group_name or "(the workspace)",
                each.hours.hours,
                each.hours.time_zone,
                "-".join(part for part in (each.hours.country, each.hours.subdivision) if part),
            ]
            for each in found
            if each.hours is not None
        ],
    )


async def find_person(ctx: ServerContext, name: str) -> Person:
    """The person of this name, or an error that says what to do."""
    where = ctx.settings.workspace
    person = None if text_problem(name) else await ctx.directory.find_person(where, name)
    if person is None:
        raise CommandError(f"There is nobody called {name!r} here. To see who is: handraise people list")
    return person


def _check_name(name: str) -> None:
    try:
        responder_of(Responder(name))
    except PermissionDenied as refusal:
        raise CommandError(f"Nobody can be called {name!r}: {refusal.reason}.") from None


def _only_administrator(name: str) -> CommandError:
    return CommandError(
        f"{name!r} is the only administrator. Add another first: handraise people add NAME --admin"
    )
