"""A question as an MCP client shows it: a message, a flat schema, and how its response is read.

Invisible characters in an agent's text are shown, also in names and options; the mapping back is kept here. A
question that cannot be shown completely is not shown at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_types.version import is_version_at_least

from handraise import Approval, Choice, Field, Form, MultiChoice, Open, Option, Problem, Question
from handraise.forms import AnyForm, form_to_schema
from handraise.model.argument_order import reading_order
from handraise.model.json_values import Json
from handraise.model.thread_messages import ThreadMessage
from handraise.model.visible import visible, visible_line
from handraise.presentation.brief_text import brief_lines, option_text, preview_title, previews_of

Content = Mapping[str, Any]
Schema = dict[str, Any]

ANSWER = "answer"
OTHER = "other"
_ARGUMENT = "arguments."
_SEND_BACK = "send_back"
_TITLED_SINCE = "2025-11-25"
_LONGEST = 12_000
"""A person does not read more than this in a dialogue, and an action must be read completely."""
_KNOWN = frozenset({"type", "format", "minLength", "maxLength", "minimum", "maximum"})


class Unshowable(Exception):
    """This client cannot show the whole question; the text says why."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What to show, and how to read the response as an answer. The desk checks whether it fits."""

    message: str = field(repr=False)
    schema: Schema = field(repr=False)
    read: Callable[[Content], Json] = field(repr=False)
    sent_back: Callable[[Content], str | None] = field(default=lambda _: None, repr=False)
    """Why the response sends the question back, or None if it is an answer."""
    seen: int = 0
    """How many messages of the question's thread are shown."""

    def again(self, problems: Sequence[Problem]) -> Elicitation:
        """The same, with what was wrong with the last answer."""
        why = "\n".join(f"- {visible_line(str(each))[:500]}" for each in problems[:10])
        return replace(self, message=f"That answer does not fit:\n{why}\n\n{self.message}")


def elicitation_of(question: Question, *, version: str, thread: Sequence[ThreadMessage] = ()) -> Elicitation:
    """How a client that speaks this version of the protocol shows a question and its thread, or `Unshowable`."""
    message = "\n".join((*_lines(question), *_thread_lines(thread)))
    return replace(_shown(question.form, message, version), seen=len(thread))


def _shown(form: AnyForm, message: str, version: str) -> Elicitation:
    if len(message) > _LONGEST:
        raise Unshowable("it is too long to be read there")
    if isinstance(form, Approval):
        return _approval(form, message, version)
    if isinstance(form, Form):
        return _fields(form, message, version)
    part = _Part.of(form, version)
    properties = {ANSWER: part.schema}
    other = isinstance(form, (Choice, MultiChoice)) and form.allow_other
    if other:
        properties[OTHER] = {"type": "string", "title": "Something else"}

    def read(content: Content) -> Json:
        given, own = part.read(content.get(ANSWER)), content.get(OTHER) if other else None
        if not isinstance(own, str) or not own.strip():
            return given
        return [*(given or ()), {"other": own}] if isinstance(form, MultiChoice) else {"other": own}

    return Elicitation(message, _object(properties, [] if other else [ANSWER]), read)


def _fields(form: Form, message: str, version: str) -> Elicitation:
    shown = _distinct([entry.name for entry in form.fields])
    parts = {name: _Part.of_field(entry, version) for name, entry in zip(shown, form.fields, strict=True)}
    required = [name for name, entry in zip(shown, form.fields, strict=True) if entry.required]

    def read(content: Content) -> Json:
        value: dict[str, Json] = {}
        for name, given in content.items():
            if name not in parts:
                value[name] = given
            # Many clients send an empty text for an empty field.
            elif given != "" or name in required:
                value[shown[name]] = parts[name].read(given)
        return value

    return Elicitation(message, _object({name: part.schema for name, part in parts.items()}, required), read)


def _approval(form: Approval, message: str, version: str) -> Elicitation:
    decide = _Part.of(
        Choice.of(
            Option(id="approve", label="Approve"),
            Option(id="deny", label="Deny"),
            Option(id=_SEND_BACK, label="Send back"),
        ),
        version,
    )
    names = _distinct([entry.name for entry in form.editable])
    parts = {
        _ARGUMENT + name: _Part.of_field(entry, version)
        for name, entry in zip(names, form.edits, strict=True)
    }
    properties = {"decision": decide.schema} | {name: part.schema for name, part in parts.items()}
    properties["reason"] = {
        "type": "string",
        "title": "Reason",
        "description": "What to change, if you send it back; for a denial, if you like",
    }

    def read(content: Content) -> Json:
        # A desk accepts yes as an approval if a person means it; this form asks for a certain word and
        # accepts no other.
        decision = content.get("decision")
        value: dict[str, Json] = {
            "decision": decision if isinstance(decision, str) else None,
            "digest": form.digest,
        }
        if content.get("reason"):
            value["reason"] = content["reason"]
        edits = {
            names[name.removeprefix(_ARGUMENT)]: part.read(content[name])
            for name, part in parts.items()
            if content.get(name) is not None
        }
        # A client sends the fields of the form whatever was decided; a denial has no arguments.
        return {**value, "arguments": edits} if edits and value["decision"] == "approve" else value

    def sent_back(content: Content) -> str | None:
        return str(content.get("reason") or "") if content.get("decision") == _SEND_BACK else None

    return Elicitation(message, _object(properties, ["decision", *parts]), read, sent_back)


@dataclass(frozen=True, slots=True)
class _Part:
    """One property: its schema, and how to read the value that a client sends for it."""

    schema: Schema
    read: Callable[[Json], Json]

    @classmethod
    def of(cls, form: AnyForm, version: str) -> _Part:
        if not isinstance(form, (Choice, MultiChoice)):
            schema: Schema = {k: v for k, v in form_to_schema(form).items() if k in _KNOWN}
            if isinstance(form, Open) and form.pattern:
                schema["description"] = f"Must match {visible_line(form.pattern)}"
            return cls(schema, lambda given: given)
        ids = _distinct([option.id for option in form.options])
        titles = [visible_line(option.label) for option in form.options]

        def one(given: Json) -> Json:
            return ids.get(given, given) if isinstance(given, str) else given

        if isinstance(form, Choice):
            if not is_version_at_least(version, _TITLED_SINCE):
                return cls({"type": "string", "enum": list(ids), "enumNames": titles}, one)
            return cls({"type": "string", "oneOf": _titled(ids, titles)}, one)
        if not is_version_at_least(version, _TITLED_SINCE):
            raise Unshowable("its version of MCP has no choice of several")
        schema = {"type": "array", "items": {"anyOf": _titled(ids, titles)}, "minItems": form.at_least}
        if form.at_most is not None:
            schema["maxItems"] = form.at_most
        return cls(schema, lambda given: [one(each) for each in given] if isinstance(given, list) else given)

    @classmethod
    def of_field(cls, entry: Field, version: str) -> _Part:
        part = cls.of(entry.form, version)
        if isinstance(entry.form, (Choice, MultiChoice)) and entry.form.allow_other:
            raise Unshowable("it has several fields, and one of them is a choice that allows other text")
        described = ". ".join(filter(None, (entry.description, part.schema.get("description"))))
        texts = {"title": entry.title or entry.name, "description": described}
        schema = part.schema | {name: visible(text) for name, text in texts.items() if text}
        # A default is sent back without being looked at, so it must look exactly like its value.
        default = entry.default
        if isinstance(default, (bool, int, float)) or (
            isinstance(default, str) and visible(default) == default
        ):
            schema["default"] = default
        return cls(schema, part.read)


def _titled(ids: Mapping[str, str], titles: Sequence[str]) -> list[Schema]:
    return [{"const": name, "title": title} for name, title in zip(ids, titles, strict=True)]


def _distinct(names: Sequence[str]) -> dict[str, str]:
    """Names as they are shown, and what each means."""
    shown = {visible_line(name): name for name in names}
    if len(shown) < len(names):
        raise Unshowable("two of its names look the same")
    return shown


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _lines(question: Question) -> Iterator[str]:
    """The text for a person. Every line of the agent's text is marked, so that it cannot pass as Handraise's own."""
    form = question.form
    asker = visible_line(question.asker)
    if isinstance(form, Approval):
        yield f"{asker} asks for your approval. What will be executed:"
        yield from _theirs(visible_line(form.action.tool))
        for name, value in reading_order(form.action.arguments).items():
            yield from _theirs(f"{visible_line(name)}: {json.dumps(value, ensure_ascii=False)}")
        yield f"Risk: {form.risk}"
        if question.context is not None:
            yield "Why, as the agent says:"
            yield from _theirs(_text(question.context))
        if form.brief is not None:
            yield "What the agent says about it:"
            for text in brief_lines(form.brief):
                yield from _theirs(text)
        return
    yield f"{asker} asks:"
    yield from _theirs(question.prompt)
    if question.context is not None:
        yield "What the agent says about it:"
        yield from _theirs(_text(question.context))
    if isinstance(form, (Choice, MultiChoice)):
        for option in form.options:
            if about := option_text(option):
                yield from _theirs(f"{visible_line(option.label)}: {visible_line(about)}")
    for preview in previews_of(form):
        yield f"{preview_title(preview)}:"
        yield from _theirs(preview.text)


def _thread_lines(thread: Sequence[ThreadMessage]) -> Iterator[str]:
    """What people and the agent have written. An answer covers it, so it is shown whole."""
    did = {"asked_back": "asks the agent", "noted": "notes", "replied": "replies"}
    for each in thread:
        if not each.text:
            raise Unshowable("it has a note that is not for this desk")
        yield f"{visible_line(each.by)} {did[each.kind]}:"
        yield from _theirs(each.text)


def _text(context: Json) -> str:
    return context if isinstance(context, str) else json.dumps(context, ensure_ascii=False, indent=1)


def _theirs(text: str) -> Iterator[str]:
    for line in visible(text).split("\n"):
        yield f"> {line}"
