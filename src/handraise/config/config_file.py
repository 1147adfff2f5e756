"""The text of a configuration: YAML, or JSON, which needs no library; and on which line each part of it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from handraise.model.errors import InvalidRequest
from handraise.model.json_values import Json
from handraise.model.problems import Problem

SCHEMA_ADDRESS = "https://handraise.github.io/handraise/reference/office.schema.json"
"""Where editors find the JSON Schema."""


def read_config_text(text: str) -> tuple[Any, Mapping[str, int]]:
    """The document of a text, and on which line each path of it begins; raises `InvalidRequest`.

    JSON is read without a library, and then the lines are not known.
    """
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text), {}
        except ValueError as error:
            raise InvalidRequest([Problem("", f"This is not JSON: {error}")]) from None
    from handraise.config.yaml_document import read_yaml  # noqa: PLC0415 -- PyYAML is an extra

    return read_yaml(text)


def write_config_text(document: Mapping[str, Json]) -> str:
    """A configuration as people write it, with the line that tells editors its schema."""
    from handraise.config.yaml_document import write_yaml  # noqa: PLC0415 -- PyYAML is an extra

    return f"# yaml-language-server: $schema={SCHEMA_ADDRESS}\n{write_yaml(document)}"


def located(problems: list[Problem], lines: Mapping[str, int]) -> Iterator[tuple[int | None, Problem]]:
    """Problems with the lines where they are, in the order of the file; None if the line is not known."""

    def line_of(path: str) -> int | None:
        while path and path not in lines:
            path = path.rpartition(".")[0]
        return lines.get(path)

    found = [(line_of(each.path), each) for each in problems]
    yield from sorted(found, key=lambda each: (each[0] is None, each[0] or 0))
