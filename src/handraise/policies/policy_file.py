"""The text of a policy: YAML, or JSON, which is YAML too."""

from __future__ import annotations

from typing import Any

from handraise.model.errors import InvalidPolicy, MissingExtra
from handraise.model.json_values import Json
from handraise.model.problems import Problem

try:
    import yaml
except ImportError as _error:
    raise MissingExtra("PyYAML", "policies") from _error

_WIDTH = 100


class DocumentLoader(yaml.SafeLoader):
    """Refuses references to other parts of the document: a few lines of them can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next part of the document."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # its stubs have no types
            raise yaml.MarkedYAMLError(
                problem="a policy or a configuration cannot use aliases", problem_mark=mark
            )
        return super().compose_node(parent, index)


def read_document(text: str | bytes) -> Any:
    """The document that a text has, or `InvalidPolicy`. An empty text is a policy without rules."""
    try:
        document = yaml.load(text, DocumentLoader)  # noqa: S506 -- a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "it is nested too deeply"
        raise InvalidPolicy([Problem("", f"This is not YAML: {reason}")]) from None
    return {} if document is None else document


def write_document(document: Json) -> str:
    """A policy as people write it."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def rule_lines(text: str) -> list[int]:
    """The line on which each rule of a written policy begins, from 1."""
    root = yaml.compose(text, yaml.SafeLoader)
    found = (value for key, value in root.value if key.value == "rules") if root is not None else ()
    return [rule.start_mark.line + 1 for rules in found for rule in rules.value]
