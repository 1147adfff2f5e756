"""What a configuration changes, line by line, as people read it before they approve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from handraise.cli.policy_commands import show_differences
from handraise.cli.terminal_texts import shown, shown_lines
from handraise.model.json_values import Json
from handraise.policies.policy_file import write_document
from handraise.wire.config_records import ConfigChangeRecord

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}
_COLOURS = {"+": typer.colors.GREEN, "~": typer.colors.YELLOW, "-": typer.colors.RED}


def show_changes(changes: Sequence[ConfigChangeRecord], *, applied: bool) -> None:
    """Print the changes, and what came of them."""
    if not changes:
        typer.echo("Nothing to change: the workspace is as the file says.")
        return
    for change in changes:
        sign = _SIGNS[change.change]
        typer.secho(f"{sign} {change.part} {shown(change.name)}".rstrip(), fg=_COLOURS[sign], bold=True)
        if change.part == "policy":
            show_differences(change.before, change.after, indent="    ")
        else:
            for line in _lines(change):
                typer.secho(f"    {line}", fg=_COLOURS.get(line[0]))
        if change.warning is not None:
            typer.secho(f"    ! {change.warning}", fg=typer.colors.RED, bold=True)
    number = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
    typer.echo(f"\n{number} applied." if applied else f"\n{number}. Nothing was stored.")


def _lines(change: ConfigChangeRecord) -> Iterator[str]:
    before, after = (each if isinstance(each, dict) else {} for each in (change.before, change.after))
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if isinstance(one or [], list) and isinstance(other or [], list):
            gone, new = _without(one, other), _without(other, one)
            if _are_short([*gone, *new]):
                yield from (
                    f"{sign} {name}: {_joined(each)}" for sign, each in (("-", gone), ("+", new)) if each
                )
                continue
        yield from (line for sign, each in (("-", one), ("+", other)) for line in _written(sign, name, each))


def _without(some: Json, others: Json) -> list[Json]:
    return [each for each in some or [] if each not in (others or [])]


def _are_short(values: Sequence[Json]) -> bool:
    return all(not isinstance(each, (dict, list)) for each in values)


def _joined(values: Sequence[Any]) -> str:
    return ", ".join(shown(str(each)) for each in values)


def _written(sign: str, name: str, value: Json) -> Iterator[str]:
    if value is None:
        return
    for line in shown_lines(write_document({name: value}).rstrip("\n")):
        yield f"{sign} {line}"
