"""`handraise apply` and `handraise export-config`: the configuration of a workspace as a file, such as one in git."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from handraise.cli.config_differences import show_changes
from handraise.cli.environment import operator, with_context
from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.policy_commands import show_staffing
from handraise.cli.session import Workspace, is_server, store_address
from handraise.cli.sign_in_commands import call_server
from handraise.cli.terminal_texts import shown_lines
from handraise.config.config_apply import run_plan
from handraise.config.config_document import MOST_BYTES, parse_config
from handraise.config.config_file import located, read_config_text, write_config_text
from handraise.config.config_plan import plan_config
from handraise.config.config_state import config_of, read_state
from handraise.model.errors import InvalidRequest, MissingExtra
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.server import ServerContext
from handraise.server.config_setup import config_target
from handraise.wire.config_records import ConfigChangeRecord, ConfigResultRecord, StaffingRecord

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="ADDRESS",
        help="The address of a server, with an administrator's token in HANDRAISE_KEY. Default: HANDRAISE_URL.",
    ),
]


def apply(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The configuration, in YAML or JSON; - for stdin.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change, and store nothing.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Remove what a part of the file does not name. Questions and the last administrator always stay.",
        ),
    ] = False,
    server: ServerAddress = None,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Make a workspace what a file says: people, groups, addresses, routing, policy, retention and quotas.

    A part that the file does not have stays as it is. The same file again changes nothing. ${NAME} in an address is
    replaced by that variable, for secrets.
    """
    lines: Mapping[str, int] = {}
    try:
        document, lines = read_config_text(_text_of(file))
        config = parse_config(document)  # before anything is sent, with the lines of all problems
        document = {**document, **_filled(config.document(), file.parent)}
        result = _apply(document, server, workspace, dry_run=dry_run, prune=prune)
    except InvalidRequest as error:
        _refuse(file, error, lines)
    if as_json:
        typer.echo(result.model_dump_json(indent=2))
    else:
        show_changes(result.changes, applied=result.applied)
        for each in result.warnings:
            show_staffing(each.text, is_short=each.is_short)


def export_config(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write to; stdout if not given.")
    ] = None,
    *,
    server: ServerAddress = None,
    workspace: Workspace = None,
) -> None:
    """Write the configuration of a workspace as the file that `handraise apply` reads, without secrets.

    Applying it changes nothing: what is left out is kept. A name that ends with .json makes it JSON.
    """
    address = server or store_address()
    if is_server(address):
        _, said = call_server("GET", "/v1/config", workspace=workspace, address=address)
        document: dict[str, Json] = json.loads(said)
    else:

        async def work(ctx: ServerContext) -> dict[str, Json]:
            return config_of(await read_state(ctx, ctx.settings.workspace)).document()

        document = with_context(work, workspace=workspace)
    is_json = file is not None and file.suffix == ".json"
    try:
        text = f"{json.dumps(document, indent=2, ensure_ascii=False)}\n" if is_json else ""
        text = text or write_config_text(document)
    except MissingExtra as error:
        raise CommandError(f"{error}, or write JSON: handraise export-config office.json") from None
    if file is None:
        typer.echo(text, nl=False)
        return
    file.write_text(text, encoding="utf-8")
    typer.echo(
        f"The configuration is in {file}. To see that it changes nothing: handraise apply --dry-run {file}"
    )


def _apply(
    document: Mapping[str, Any],
    server: str | None,
    workspace: str | None,
    *,
    dry_run: bool,
    prune: bool,
) -> ConfigResultRecord:
    address = server or store_address()
    if is_server(address):
        path = f"/v1/config?dry_run={str(dry_run).lower()}&prune={str(prune).lower()}"
        _, said = call_server("PUT", path, workspace=workspace, address=address, json=document)
        return ConfigResultRecord.model_validate_json(said)

    async def work(ctx: ServerContext) -> ConfigResultRecord:
        target = config_target(ctx, ctx.settings.workspace, by=operator(), has_channels=False)
        plan = await plan_config(target, parse_config(document), prune=prune)
        if not dry_run:
            await run_plan(plan)
        changes = tuple(ConfigChangeRecord(**asdict(each)) for each in plan.changes)
        warnings = tuple(map(StaffingRecord.of, plan.staffing))
        return ConfigResultRecord(applied=not dry_run, changes=changes, warnings=warnings)

    return with_context(work, workspace=workspace)


def _text_of(file: Path) -> str:
    if str(file) == "-":
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise CommandError(f"{file} is larger than {MOST_BYTES:,} bytes.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not a text in UTF-8.") from None


def _filled(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The parts of a document that the command completes: variables in addresses, and the files of rotas."""
    problems: list[Problem] = []
    filled: dict[str, Any] = {}
    if "addresses" in document:
        filled["addresses"] = _with_variables(document["addresses"], "addresses", problems)
    if "groups" in document:
        filled["groups"] = {
            name: _with_rota(group, folder, f"groups.{name}.rota", problems)
            for name, group in document["groups"].items()
        }
    if problems:
        raise InvalidRequest(problems)
    return filled


def _with_rota(group: dict[str, Any], folder: Path, path: str, problems: list[Problem]) -> dict[str, Any]:
    rota = group.get("rota")
    if rota is None:
        return group
    if "file" in rota:
        try:
            return {**group, "rota": {"text": (folder / rota["file"]).read_text(encoding="utf-8")}}
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(f"{path}.file", f"cannot be read: {error}"))
    return {**group, "rota": _with_variables(rota, path, problems)}


def _with_variables(value: Any, path: str, problems: list[Problem]) -> Any:
    """A value in whose texts the variables of the environment are filled in."""
    if isinstance(value, dict):
        return {name: _with_variables(each, f"{path}.{name}", problems) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_variables(each, f"{path}.{place}", problems) for place, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in os.environ]
    problems += [Problem(path, f"the variable {name} is not set") for name in missing]
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value)


def _refuse(file: Path, error: InvalidRequest, lines: Mapping[str, int]) -> NoReturn:
    """Print every problem with its line, and end the command."""
    typer.echo("Nothing was changed, because this file cannot be applied:", err=True)
    for line, problem in located(_in_file(error.problems), lines):
        place = f"{file}:{line}" if line is not None else str(file)
        typer.echo("\n".join(shown_lines(f"  {place}: {problem}")), err=True)
    raise typer.Exit(REFUSED) from None


def _in_file(problems: Sequence[Problem]) -> list[Problem]:
    """Problems that a server found, without the part of the request."""
    return [Problem(each.path.removeprefix("body."), each.message) for each in problems]
