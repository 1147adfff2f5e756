"""YAML as YAML 1.2 means it, with the line of each part. Needs PyYAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from handraise.model.errors import InvalidRequest
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.policies.policy_file import DocumentLoader, write_document

_TAG = "tag:yaml.org,2002:"
_PLAIN = (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", [*"tTfF"]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", [*"-+0123456789"]),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", [*"-+.0123456789"]),
)
"""What is not a text although it is not quoted. YAML 1.1 also makes numbers of 17:30, and truth values of `on` and `no`."""


class _ConfigLoader(DocumentLoader):
    pass


_ConfigLoader.yaml_implicit_resolvers = {}  # not those of YAML 1.1


for _name, _pattern, _first in _PLAIN:
    _ConfigLoader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)


def read_yaml(text: str) -> tuple[Any, Mapping[str, int]]:
    """The document of a text, and on which line each path of it begins; raises `InvalidRequest`."""
    try:
        loader = _ConfigLoader(text)
        node = loader.get_single_node()
        lines: dict[str, int] = {}
        problems: list[Problem] = []
        if node is not None:
            _walk(node, "", lines, problems)
        document = {} if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "it is nested too deeply"
        raise InvalidRequest([Problem("", f"This is not YAML: {reason}")]) from None
    if problems:
        raise InvalidRequest(problems)
    return document, lines


def write_yaml(document: Mapping[str, Json]) -> str:
    """A document as people write it."""
    return write_document(dict(document))


def _walk(node: yaml.Node, path: str, lines: dict[str, int], problems: list[Problem]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = f"{path}.{key.value}" if path else str(key.value)
            line = key.start_mark.line + 1
            if place in lines:
                problems.append(
                    Problem(place, f"is written twice: on line {lines[place]} and on line {line}")
                )
            lines[place] = line
            _walk(value, place, lines, problems)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            place = f"{path}.{number}" if path else str(number)
            lines[place] = value.start_mark.line + 1
            _walk(value, place, lines, problems)
