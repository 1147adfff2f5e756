"""`handraise away` and `handraise back`: on a store as its operator, at a server as a signed-in person."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated
from urllib.parse import quote

import typer

from handraise.cli.exit_codes import CommandError
from handraise.cli.session import Workspace, login_name
from handraise.cli.sign_in_commands import call_server
from handraise.cli.terminal_output import when
from handraise.cli.terminal_texts import shown
from handraise.model.away import Away
from handraise.model.json_values import text_problem
from handraise.wire.away_records import AwayRecord, PutAway
from handraise.wire.records import CallerRecord

Who = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="NAME",
        help="Somebody else, if you administer the workspace. Default: you; on a store, your login name.",
    ),
]


def away(
    *,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DAY", help="The last day, such as 2026-12-01, or an instant such as 2026-12-01T12:00."
        ),
    ] = None,
    deputy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who answers for you: new questions are asked of them too."),
    ] = None,
    starts: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="The first day, or an instant. Default: now.")
    ] = None,
    person: Who = None,
    workspace: Workspace = None,
) -> None:
    """Say that you are away, until when, and who answers for you. Without options, show whether you are."""
    if until is None:
        if deputy is not None or starts is not None:
            raise CommandError("Until when? Give the last day: --until 2026-12-01")
        _show(_find(person, workspace))
        return
    asked = PutAway(
        starts=None if starts is None else _instant("--from", starts, end=False),
        until=_instant("--until", until, end=True),
        deputy=_name("--deputy", deputy),
    )
    _show(_put(person, asked, workspace))


def back(*, person: Who = None, workspace: Workspace = None) -> None:
    """Say that you are back. New questions go to you alone again."""
    _show(_end(person, workspace))


def _show(record: AwayRecord) -> None:
    name = shown(record.person)
    if record.starts is None or record.until is None:
        typer.echo(f"{name} is not away.")
        return
    deputy = (
        "Nobody answers for them." if record.deputy is None else f"{shown(record.deputy)} answers for them."
    )
    typer.echo(f"{name} is away from {when(record.starts)} until {when(record.until)}. {deputy}")


def _instant(option: str, text: str, *, end: bool) -> datetime:
    """What somebody wrote, on the clock of this machine; of a day its beginning, or the end of it."""
    try:
        if len(text) == len("2026-12-01"):
            day = date.fromisoformat(text) + timedelta(days=end)
            return datetime.combine(day, time()).astimezone(UTC)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option} {text[:40]!r} is not a day: write 2026-12-01, or 2026-12-01T12:00."
        ) from None


def _name(option: str, name: str | None) -> str | None:
    if name is not None and (problem := "is empty" if not name.strip() else text_problem(name)):
        raise CommandError(f"{option} {problem}.")
    return name


def _find(person: str | None, workspace: str | None) -> AwayRecord:
    if _at_server():
        return _call("GET", person, workspace)
    from handraise.cli.environment import with_context  # noqa: PLC0415 -- the server's parts take long to import
    from handraise.cli.people_commands import find_person  # noqa: PLC0415
    from handraise.server import ServerContext  # noqa: PLC0415

    async def work(ctx: ServerContext) -> AwayRecord:
        found = await find_person(ctx, person or login_name())
        return AwayRecord.of(found.id, found.away)

    return with_context(work, workspace=workspace)


def _put(person: str | None, asked: PutAway, workspace: str | None) -> AwayRecord:
    if _at_server():
        return _call("PUT", person, workspace, asked)
    from handraise.cli.environment import operator, with_context  # noqa: PLC0415 -- see above
    from handraise.cli.people_commands import find_person  # noqa: PLC0415
    from handraise.server import ServerContext  # noqa: PLC0415
    from handraise.server.api.away_routes import go_away  # noqa: PLC0415

    async def work(ctx: ServerContext) -> AwayRecord:
        found = await find_person(ctx, person or login_name())
        period = Away(starts=asked.starts or datetime.now(UTC), until=asked.until, deputy=asked.deputy)
        changed = await go_away(ctx, found, period, by=operator())
        return AwayRecord.of(changed.id, changed.away)

    return with_context(work, workspace=workspace)


def _end(person: str | None, workspace: str | None) -> AwayRecord:
    if _at_server():
        return _call("DELETE", person, workspace)
    from handraise.cli.environment import operator, with_context  # noqa: PLC0415 -- see above
    from handraise.cli.people_commands import find_person  # noqa: PLC0415
    from handraise.server import ServerContext  # noqa: PLC0415
    from handraise.server.api.away_routes import come_back  # noqa: PLC0415

    async def work(ctx: ServerContext) -> AwayRecord:
        changed = await come_back(ctx, await find_person(ctx, person or login_name()), by=operator())
        return AwayRecord.of(changed.id, changed.away)

    return with_context(work, workspace=workspace)


def _call(method: str, person: str | None, workspace: str | None, body: PutAway | None = None) -> AwayRecord:
    if person is None:
        _, said = call_server("GET", "/v1/me", workspace=workspace)
        person = CallerRecord.model_validate_json(said).person
    if person is None:
        raise CommandError("Only people are away, not agents. Sign in: handraise sign-in LINK")
    json = None if body is None else body.model_dump(mode="json")
    _, said = call_server(method, f"/v1/people/{quote(person, safe='')}/away", workspace=workspace, json=json)
    return AwayRecord.model_validate_json(said)


def _at_server() -> bool:
    return os.environ.get("HANDRAISE_URL", "").startswith(("http://", "https://"))
