"""What Teams takes as a card, as the schema of Adaptive Cards 1.5 has it, and what people see of it.

Stricter than Teams where that is not known: nothing that is not documented is let through, and no text is read as
Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

LARGEST = 28 * 1024
"""What Teams takes as a message, in UTF-16."""
MOST_BUTTONS = 6
_FUNCTION = re.compile(r"\{\{(DATE|TIME)\(")
_RUN = {"text", "color", "fontType", "highlight", "isSubtle", "italic", "size", "strikethrough", "weight"}
_ELEMENT = {"spacing", "separator", "id", "isVisible"}
_INPUT = {"label", "isRequired", "errorMessage", "id"}
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "RichTextBlock": ({"inlines"}, _ELEMENT),
    "Container": ({"items"}, {"style", *_ELEMENT}),
    "ActionSet": ({"actions"}, _ELEMENT),
    "Input.Text": ({"id"}, {"isMultiline", "maxLength", "placeholder", "style", "value", *_INPUT}),
    "Input.Number": ({"id"}, {"min", "max", "placeholder", "value", *_INPUT}),
    "Input.Date": ({"id"}, {"min", "max", "value", *_INPUT}),
    "Input.Time": ({"id"}, {"min", "max", "value", *_INPUT}),
    "Input.Toggle": ({"id", "title"}, {"value", "valueOn", "valueOff", "wrap", *_INPUT}),
    "Input.ChoiceSet": ({"id", "choices"}, {"isMultiSelect", "style", "value", "wrap", *_INPUT}),
}


class Invalid(Exception):
    """Teams would refuse this, or show something else than was meant."""


def check_activity(activity: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless this can be said in a conversation."""
    _need(activity.get("type") == "message", "type", "is no message")
    size = len(json.dumps(activity, ensure_ascii=False).encode("utf-16-le"))
    _need(size <= LARGEST, "activity", f"has {size} bytes")
    if "attachments" not in activity:
        _keys(activity, "activity", {"type", "text", "textFormat"}, {"replyToId"})
        _need(activity["textFormat"] == "plain", "text", "would be read as Markdown")
        return
    _keys(activity, "activity", {"type", "summary", "attachments"}, {"id", "replyToId"})
    _need(not re.search(r"[<>&*_`\[\]]", activity["summary"]), "summary", "may be read as markup")
    _need(len(activity["attachments"]) == 1, "attachments", "has more than one")
    attachment = activity["attachments"][0]
    _keys(attachment, "attachment", {"contentType", "content"}, ())
    _need(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", "attachment", "is no card")
    check_card(attachment["content"])


def check_card(card: Any) -> None:
    """Raise `Invalid` unless this is a card of version 1.5."""
    _keys(card, "card", {"type", "version", "body"}, {"actions"})
    _need(card["type"] == "AdaptiveCard", "card", "is none")
    _need(card["version"] == "1.5", "card", f"is of version {card['version']}")
    _need(len(json.dumps(card, ensure_ascii=False).encode("utf-16-le")) <= LARGEST, "card", "is too large")
    for place, each in enumerate(card["body"]):
        _element(each, f"body[{place}]")
    _actions(card.get("actions", []), "actions")
    ids = [each["id"] for each in inputs_in(card)]
    _need(len(ids) == len(set(ids)), "body", "two inputs have one id")


def inputs_in(card: Any) -> Iterator[dict[str, Any]]:
    """The inputs of a card."""
    return (each for each in _nodes(card) if str(each.get("type")).startswith("Input."))


def buttons_in(card: Any) -> Iterator[dict[str, Any]]:
    """The buttons of a card that the bot hears of."""
    return (each for each in _nodes(card) if each.get("type") == "Action.Execute")


def as_text(node: Any) -> str:
    """What people see of a card, line by line."""
    match node:
        case list():
            return "\n".join(filter(None, map(as_text, node)))
        case {"type": "AdaptiveCard", "body": body}:
            return as_text([*body, {"type": "ActionSet", "actions": node.get("actions", [])}])
        case {"type": "RichTextBlock", "inlines": inlines}:
            return "".join(each["text"] for each in inlines)
        case {"type": "Container", "items": items}:
            return "\n".join(f"│ {line}" for line in as_text(items).split("\n"))
        case {"type": "ActionSet", "actions": actions}:
            return "\n".join(map(as_text, actions))
        case {"type": "Action.OpenUrl", "title": title, "url": url}:
            return f"[ {title} ]({url})"
        case {"type": "Action.Execute", "title": title}:
            return f"[ {title} ]"
        case {"type": "Input.ChoiceSet", "choices": choices}:
            shown = " ".join(f"( ) {each['title']}" for each in choices)
            return f"{node['label']}: {shown}"
        case {"type": "Input.Toggle", "title": title}:
            return f"{node['label']}: [{'x' if node.get('value') == 'true' else ' '}] {title}"
        case {"type": str(kind), "label": label} if kind.startswith("Input."):
            return f"{label}: {node.get('value', '____')}"
        case _:
            return ""


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            yield value
            for name, each in value.items():
                if name != "data":
                    yield from _nodes(each)
        case list():
            for each in value:
                yield from _nodes(each)


def _element(element: Any, path: str) -> None:
    kind = str(element.get("type")) if isinstance(element, dict) else ""
    _need(kind in _FIELDS, path, f"no {kind} here")
    required, optional = _FIELDS[kind]
    _keys(element, path, {"type", *required}, optional)
    match kind:
        case "RichTextBlock":
            _need(bool(element["inlines"]), path, "is empty")
            for place, each in enumerate(element["inlines"]):
                here = f"{path}.inlines[{place}]"
                _keys(each, here, {"type", "text"}, _RUN)
                _need(each["type"] == "TextRun", here, "is no text run")
                _need(isinstance(each["text"], str) and each["text"] != "", here, "is empty")
                _need(not _FUNCTION.search(each["text"]), here, "would be another text")
        case "Container":
            _need(element.get("style") in (None, "emphasis"), path, "has a colour")
            for place, each in enumerate(element["items"]):
                _element(each, f"{path}.items[{place}]")
        case "ActionSet":
            _need(bool(element["actions"]), path, "is empty")
            _actions(element["actions"], path)
        case _:
            _input(element, path)


def _input(element: dict[str, Any], path: str) -> None:
    _label(element.get("label"), path)
    _need(
        not element.get("isRequired") or "errorMessage" in element, path, "has no words for what is missing"
    )
    match element["type"]:
        case "Input.ChoiceSet":
            _need(element.get("style") in ("compact", "expanded"), path, "style")
            values = [each["value"] for each in element["choices"]]
            _need(len(values) == len(set(values)) > 0, path, "a value twice")
            for each in element["choices"]:
                _keys(each, path, {"title", "value"}, ())
                _label(each["title"], path)
                _need("," not in each["value"], path, "a value with a comma")
            for each in filter(None, element.get("value", "").split(",")):
                _need(each in values, path, f"{each} is none of the values")
        case "Input.Date":
            _need(
                re.fullmatch(r"\d{4}-\d\d-\d\d", element.get("value", "2026-01-01")) is not None,
                path,
                "value",
            )
        case "Input.Time":
            _need(re.fullmatch(r"\d\d:\d\d", element.get("value", "00:00")) is not None, path, "value")
        case "Input.Number":
            _need(isinstance(element.get("value", 0), int | float), path, "value")
        case "Input.Toggle":
            _label(element["title"], path)
        case _:
            _need(isinstance(element.get("value", ""), str), path, "value")
            _need(element.get("style", "Text") in ("Text", "Tel", "Url", "Email", "Password"), path, "style")


def _actions(actions: Any, path: str) -> None:
    _need(len(actions) <= MOST_BUTTONS, path, f"{len(actions)} buttons, of which some are not shown")
    for place, each in enumerate(actions):
        here = f"{path}.actions[{place}]"
        match each.get("type"):
            case "Action.Execute":
                _keys(each, here, {"type", "title", "verb", "data", "associatedInputs"}, ())
                _need(isinstance(each["data"], dict), here, "data")
                _need(each["associatedInputs"] in ("auto", "none"), here, "associatedInputs")
                _need(0 < len(each["title"]) <= 100, here, "title")
            case "Action.OpenUrl":
                _keys(each, here, {"type", "title", "url"}, ())
                _need(each["url"].startswith(("https://", "http://")), here, "is no web address")
            case other:
                raise Invalid(f"{here}: no {other} here")


def _label(text: Any, path: str) -> None:
    """Some clients read Markdown in labels and titles: nothing may be in one that could be it."""
    _need(isinstance(text, str) and text != "" and "\n" not in text, path, "has no label")
    _need(not re.search(r"[\\`*~\[\]<>{}|]|\b_|_\b|://", text), path, f"{text!r} may be read as Markdown")


def _need(held: bool, path: str, why: str) -> None:  # noqa: FBT001 -- it is what is checked
    if not held:
        raise Invalid(f"{path}: {why}")


def _keys(value: Any, path: str, required: Collection[str], optional: Collection[str]) -> None:
    _need(isinstance(value, dict), path, "is no object")
    missing, unknown = set(required) - set(value), set(value) - set(required) - set(optional)
    _need(not missing, path, f"lacks {sorted(missing)}")
    _need(not unknown, path, f"has {sorted(unknown)}")
