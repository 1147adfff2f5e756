"""How questions and answers travel in A2A messages: as text for people, and as data for programs.

A2A has no field that describes a valid answer. A data part holds it, under the name `handraise`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from a2a.helpers import get_data_parts, new_data_part, new_text_part
from a2a.types import Message, Part

from handraise import Approval, Question
from handraise.forms import form_to_schema
from handraise.model.json_values import Json
from handraise.model.visible import visible

MARK = "handraise"


def question_parts(questions: Sequence[Question], said: Sequence[str]) -> list[Part]:
    """What a client is shown: the result of its last message, then every pending question."""
    text = "\n\n".join([*said, *(visible(each.prompt) for each in questions)])
    return [new_text_part(text), new_data_part({MARK: {"questions": [_shown(each) for each in questions]}})]


def answer_parts(answers: Mapping[str, Json], words: Sequence[str]) -> list[Part]:
    """The answers for a remote agent: in words, and as data by the id of each question."""
    return [new_text_part("\n".join(words)), new_data_part({MARK: {"answers": dict(answers)}})]


def marked(message: Message | None, name: str, kind: type) -> Any:
    """The data of a message under this name, or an empty value of its kind."""
    for data in get_data_parts(message.parts if message is not None else []):
        if isinstance(data, dict) and isinstance(data.get(MARK), dict):
            found = data[MARK].get(name)
            if isinstance(found, kind):
                return found
    return kind()


def schema_in(message: Message) -> dict[str, Json] | None:
    """The JSON Schema that another vendor's agent has put into a data part, or None."""
    for data in get_data_parts(message.parts):
        if isinstance(data, dict) and data.get("type") == "object" and "properties" in data:
            return data
    return None


def _shown(question: Question) -> dict[str, Json]:
    form = question.form
    shown: dict[str, Json] = {
        "id": question.id,
        "prompt": visible(question.prompt),
        "kind": form.kind,
        "schema": form_to_schema(form),
    }
    if isinstance(form, Approval):
        shown |= {"tool": form.action.tool, "arguments": form.action.arguments}
        shown["editable"] = [entry.name for entry in form.editable]
    if question.thread:
        shown["thread"] = question.thread
    if question.replaces is not None:
        shown["replaces"] = question.replaces
    return shown
