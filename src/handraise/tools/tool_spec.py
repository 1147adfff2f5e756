"""What a model is told about a tool: its name, what it is for, and its parameters."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field

from handraise.model.json_values import Json

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as model APIs expect it; `parameters` is a JSON Schema of one object."""

    name: str
    description: str = field(repr=False)
    parameters: dict[str, Json] = field(repr=False)

    def __post_init__(self) -> None:
        if not _LEGAL_NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a name that model APIs take: use 1 to 64 letters, digits, _ and -"
            )

    def for_openai_chat(self) -> dict[str, Json]:
        """An entry of `tools` for OpenAI chat completions."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": copy.deepcopy(self.parameters),
            },
        }

    def for_openai_responses(self) -> dict[str, Json]:
        """An entry of `tools` for OpenAI Responses."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": copy.deepcopy(self.parameters),
            # Strict mode, the default there, has no optional parameters.
            "strict": False,
        }

    def for_anthropic(self) -> dict[str, Json]:
        """An entry of `tools` for Anthropic messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(self.parameters),
        }
