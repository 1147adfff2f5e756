"""The reference pages say what the code says. A page that differs is printed as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic_core import PydanticUndefined

from handraise.cli.commands import app_with
from handraise.server import ServerSettings
from handraise.server.observability import Metrics
from support.command import handraise

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def check(page: str, generated: str) -> None:
    """The page has this text between its marks."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- generated -->\n")
    found, _, _ = rest.partition("<!-- end -->")
    assert found.strip() == generated.strip(), f"docs/reference/{page} should have:\n\n{generated}\n"


def test_the_settings_page_has_every_setting_with_its_default() -> None:
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in ServerSettings.model_fields.items():
        default = "a SQLite file in your data folder" if name == "url" else shown(field.default)
        rows.append(f"| `HANDRAISE_{name.upper()}` | {default} | {field.description} |")
    check("settings.md", "\n".join(rows))


def shown(default: Any) -> str:
    match default:
        case None | () | "":
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case float():
            return f"`{default:g}`"
        case _:
            assert default is not PydanticUndefined
            return f"`{default}`"


def test_the_cli_page_has_every_command_with_its_help() -> None:
    parts = []
    for line in commands(app_with()):
        done = handraise(*line, "--help")
        parts.append(f"## {' '.join(('handraise', *line))}\n\n```text\n{done.stdout.strip()}\n```")
    check("cli.md", "\n\n".join(parts))


def commands(within: typer.Typer, *before: str) -> Iterator[tuple[str, ...]]:
    """Every command, in the order in which `--help` lists them."""
    for command in within.registered_commands:
        assert command.callback is not None
        yield (*before, command.name or command.callback.__name__)
    for group in within.registered_groups:
        assert group.name is not None
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, *before, group.name)


def test_the_metrics_page_has_every_metric_with_its_labels() -> None:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for each in Metrics().descriptions:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{each.name}` | {each.kind} | {labels} | {each.text} |")
    check("metrics.md", "\n".join(rows))
