"""What Slack takes as blocks and views, as its documentation has it, and what people see of them.

Stricter than Slack where that is not known: nothing that is not documented is let through.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

Rule = Callable[[Any, str], None]

STYLES = {"bold", "italic", "strike", "code"}
LARGEST_MESSAGE = 12_000
LARGEST_VIEW = 250_000


class Invalid(Exception):
    """Slack would refuse this, and where."""


def check_blocks(blocks: Any, *, most: int, allowed: Collection[str]) -> None:
    """Raise `Invalid` unless these can be the blocks of a message or a view."""
    _is(list, blocks, "blocks")
    _need(1 <= len(blocks) <= most, "blocks", f"{len(blocks)} of them")
    ids = [each.get("block_id") for each in blocks if isinstance(each, dict) and "block_id" in each]
    _need(len(ids) == len(set(ids)), "blocks", "a block_id twice")
    for place, block in enumerate(blocks):
        path = f"blocks[{place}]"
        _is(dict, block, path)
        _need(block.get("type") in allowed, path, f"no {block.get('type')} here")
        _BLOCKS[block["type"]](block, path)


def check_message(body: Mapping[str, Any]) -> str | None:
    """Why Slack would refuse a message, in its own word, or None."""
    if "text" in body and (not isinstance(body["text"], str) or length(body["text"]) > 4_000):
        return "msg_too_long"
    if not body.get("text"):
        return "no_text"
    if "blocks" in body:
        text = json.dumps(body["blocks"], ensure_ascii=False, separators=(",", ":"))
        if len(html.escape(text, quote=False).encode()) > LARGEST_MESSAGE:
            return "msg_blocks_too_long"
        check_blocks(body["blocks"], most=50, allowed={"rich_text", "context", "actions"})
    if "metadata" in body:
        _keys(body["metadata"], "metadata", {"event_type", "event_payload"}, ())
        _is(dict, body["metadata"]["event_payload"], "metadata.event_payload")
    return None


def check_view(view: Any) -> None:
    """Raise `Invalid` unless Slack would open this view."""
    _keys(view, "view", {"type", "title", "blocks"}, {"submit", "close", "callback_id", "private_metadata"})
    _need(view["type"] == "modal", "view.type", "is no modal")
    for name in ("title", "submit", "close"):
        if name in view:
            _plain(24)(view[name], f"view.{name}")
    _text(view.get("callback_id", ""), "view.callback_id", 0, 255)
    _text(view.get("private_metadata", ""), "view.private_metadata", 0, 3_000)
    check_blocks(view["blocks"], most=100, allowed={"rich_text", "context", "input"})
    has_input = any(each["type"] == "input" for each in view["blocks"])
    _need(not has_input or "submit" in view, "view", "has inputs and no submit")
    _need(len(json.dumps(view).encode()) <= LARGEST_VIEW, "view", "view_too_large")


def length(text: str) -> int:
    """How long a text is to Slack, at the most."""
    return len(html.escape(text, quote=False).encode("utf-16-le")) // 2


def elements_in(blocks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """What can be pressed, each with its block."""
    for block in blocks:
        if block["type"] == "actions":
            yield from ((block, each) for each in block["elements"])


def as_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The blocks as Slack flattens them: what is meant as markup in `<…>`, all other text escaped."""
    return "\n".join(filter(None, (_flat(each) for each in blocks)))


def _flat(node: Any) -> str:
    match node:
        case list():
            return "".join(map(_flat, node))
        case {"type": "text" | "plain_text", "text": str(text)}:
            return html.escape(text, quote=False)
        case {"type": "link", "url": url, "text": text}:
            return f"<{url}|{html.escape(text, quote=False)}>"
        case {"type": "date", "fallback": text}:
            return str(text)
        case {"type": "rich_text_list", "elements": items}:
            return "".join(f"{place}. {_flat(each)}\n" for place, each in enumerate(items, 1))
        case {"type": "rich_text_section", "elements": parts}:
            return _flat(parts) + "\n"
        case {"type": "rich_text_quote", "elements": parts}:
            return "".join(f"&gt; {each}\n" for each in _flat(parts).split("\n"))
        case {"type": "rich_text_preformatted", "elements": parts}:
            return f"```\n{_flat(parts)}\n```\n"
        case {"type": "actions", "elements": parts}:
            return " ".join(f"[ {_flat(each)} ]" for each in parts)
        case {"type": "static_select" | "multi_static_select", "placeholder": label, "options": options}:
            return f"{_flat(label)} ▾ " + " / ".join(_flat(each["text"]) for each in options)
        case {"type": "input", "label": label, "element": element}:
            hint = f" ({_flat(node['hint'])})" if "hint" in node else ""
            return f"{_flat(label)}{hint}: {_flat(element)}"
        case {"type": "radio_buttons" | "checkboxes", "options": options}:
            return " ".join(f"( ) {_flat(each['text'])}" for each in options)
        case {"type": "button", "text": text}:
            return _flat(text)
        case {"elements": parts}:
            return _flat(parts)
        case {"initial_value": text}:
            return html.escape(str(text), quote=False)
        case _:
            return ""


def _need(held: bool, path: str, why: str) -> None:  # noqa: FBT001 -- it is what is checked
    if not held:
        raise Invalid(f"{path}: {why}")


def _is(kind: type, value: Any, path: str) -> None:
    _need(isinstance(value, kind), path, f"is no {kind.__name__}")


def _keys(value: Any, path: str, required: Collection[str], optional: Collection[str]) -> None:
    _is(dict, value, path)
    missing, unknown = set(required) - set(value), set(value) - set(required) - set(optional)
    _need(not missing, path, f"lacks {sorted(missing)}")
    _need(not unknown, path, f"has {sorted(unknown)}")


def _text(value: Any, path: str, least: int, most: int) -> None:
    _is(str, value, path)
    _need(least <= length(value) <= most, path, f"has {length(value)} characters, not {least} to {most}")
    _need("\x00" not in value, path, "has a NUL")


def _plain(most: int) -> Rule:
    def check(value: Any, path: str) -> None:
        _keys(value, path, {"type", "text"}, {"emoji"})
        _need(value["type"] == "plain_text", path, "is not plain")
        _text(value["text"], path, 1, most)
        _need(bool(value["text"].strip()), path, "is blank")
        _need(value.get("emoji") is False, path, "would make pictures of :words:")

    return check


def _confirm(value: Any, path: str) -> None:
    _keys(value, path, {"title", "text", "confirm", "deny"}, {"style"})
    for name, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
        _plain(most)(value[name], f"{path}.{name}")


def _option(value: Any, path: str) -> None:
    _keys(value, path, {"text", "value"}, {"description"})
    _plain(75)(value["text"], f"{path}.text")
    _text(value["value"], f"{path}.value", 1, 150)
    if "description" in value:
        _plain(75)(value["description"], f"{path}.description")


def _options(most: int, initial: str) -> Rule:
    def check(value: Any, path: str) -> None:
        options = value["options"]
        _is(list, options, path)
        _need(1 <= len(options) <= most, path, f"{len(options)} options")
        for place, each in enumerate(options):
            _option(each, f"{path}.options[{place}]")
        values = [each["value"] for each in options]
        _need(len(values) == len(set(values)), path, "an option's value twice")
        given = value.get(initial, [])
        for each in given if isinstance(given, list) else [given]:
            _need(each in options, path, f"{initial} is none of the options")
        if initial in value and initial.endswith("s"):
            _need(len(given) > 0, path, f"{initial} is empty")

    return check


def _element(
    required: Collection[str] = (), optional: Collection[str] = (), *rules: Rule
) -> Callable[[Any, str], None]:
    def check(value: Any, path: str) -> None:
        _keys(value, path, {"type", "action_id", *required}, {"confirm", "placeholder", *optional})
        _text(value["action_id"], f"{path}.action_id", 1, 255)
        if "confirm" in value:
            _confirm(value["confirm"], f"{path}.confirm")
        if "placeholder" in value:
            _plain(150)(value["placeholder"], f"{path}.placeholder")
        for rule in rules:
            rule(value, path)

    return check


def _button(value: Any, path: str) -> None:
    _plain(75)(value["text"], f"{path}.text")
    _text(value.get("value", ""), f"{path}.value", 0, 2_000)
    _need("style" not in value, path, "has a colour")


def _input_text(value: Any, path: str) -> None:
    most = value.get("max_length", 3_000)
    _need(isinstance(most, int) and 1 <= most <= 3_000, path, "max_length")
    if "initial_value" in value:
        _text(value["initial_value"], f"{path}.initial_value", 1, most)


def _number_text(value: Any, path: str) -> None:
    _is(bool, value["is_decimal_allowed"], path)
    if "initial_value" in value:
        number = float(value["initial_value"])
        _need(value["is_decimal_allowed"] or number.is_integer(), path, "initial_value")


def _initial(name: str, fits: Callable[[Any], bool]) -> Rule:
    def check(value: Any, path: str) -> None:
        if name in value:
            _need(fits(value[name]), path, name)

    return check


def _is_day(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 10 and value[4] == value[7] == "-"


def _is_second(value: Any) -> bool:
    return isinstance(value, int) and len(str(value)) == 10


_IN_ACTIONS: dict[str, Rule] = {
    "button": _element({"text"}, {"value", "style"}, _button),
    "static_select": _element({"options"}, {"initial_option"}, _options(100, "initial_option")),
}
_IN_INPUTS: dict[str, Rule] = {
    "plain_text_input": _element((), {"initial_value", "multiline", "max_length"}, _input_text),
    "number_input": _element({"is_decimal_allowed"}, {"initial_value"}, _number_text),
    "email_text_input": _element((), {"initial_value"}, _initial("initial_value", lambda v: "@" in v)),
    "url_text_input": _element(
        (), {"initial_value"}, _initial("initial_value", lambda v: v.startswith("http"))
    ),
    "datepicker": _element((), {"initial_date"}, _initial("initial_date", _is_day)),
    "datetimepicker": _element((), {"initial_date_time"}, _initial("initial_date_time", _is_second)),
    "static_select": _element({"options"}, {"initial_option"}, _options(100, "initial_option")),
    "multi_static_select": _element(
        {"options"}, {"initial_options", "max_selected_items"}, _options(100, "initial_options")
    ),
    "radio_buttons": _element({"options"}, {"initial_option"}, _options(10, "initial_option")),
    "checkboxes": _element({"options"}, {"initial_options"}, _options(10, "initial_options")),
}


def _actions(block: Any, path: str) -> None:
    _keys(block, path, {"type", "elements"}, {"block_id"})
    _text(block.get("block_id", "-"), f"{path}.block_id", 1, 255)
    elements = block["elements"]
    _need(1 <= len(elements) <= 25, path, f"{len(elements)} elements")
    ids = [each.get("action_id") for each in elements]
    _need(len(ids) == len(set(ids)), path, "an action_id twice")
    for place, each in enumerate(elements):
        _need(each.get("type") in _IN_ACTIONS, f"{path}.elements[{place}]", f"no {each.get('type')} here")
        _IN_ACTIONS[each["type"]](each, f"{path}.elements[{place}]")


def _input(block: Any, path: str) -> None:
    _keys(block, path, {"type", "label", "element"}, {"block_id", "hint", "optional"})
    _text(block.get("block_id", "-"), f"{path}.block_id", 1, 255)
    _plain(2_000)(block["label"], f"{path}.label")
    if "hint" in block:
        _plain(2_000)(block["hint"], f"{path}.hint")
    _is(bool, block.get("optional", False), f"{path}.optional")
    element = block["element"]
    _need(element.get("type") in _IN_INPUTS, path, f"no {element.get('type')} in an input")
    _IN_INPUTS[element["type"]](element, f"{path}.element")


def _context(block: Any, path: str) -> None:
    _keys(block, path, {"type", "elements"}, {"block_id"})
    _need(1 <= len(block["elements"]) <= 10, path, "elements")
    for place, each in enumerate(block["elements"]):
        _plain(2_000)(each, f"{path}.elements[{place}]")


def _rich_text(block: Any, path: str) -> None:
    _keys(block, path, {"type", "elements"}, {"block_id"})
    _need(bool(block["elements"]), path, "is empty")
    for place, each in enumerate(block["elements"]):
        _rich_part(each, f"{path}.elements[{place}]")


def _rich_part(part: Any, path: str) -> None:
    match part.get("type"):
        case "rich_text_section" | "rich_text_quote":
            _keys(part, path, {"type", "elements"}, {"border"})
            _rich_elements(part, path, {"text", "link", "date"})
        case "rich_text_preformatted":
            _keys(part, path, {"type", "elements"}, {"border"})
            _rich_elements(part, path, {"text"})
        case "rich_text_list":
            _keys(part, path, {"type", "elements", "style"}, {"border", "indent", "offset"})
            _need(part["style"] in ("ordered", "bullet"), path, "style")
            _need(bool(part["elements"]), path, "is empty")
            for place, each in enumerate(part["elements"]):
                _need(each.get("type") == "rich_text_section", path, "a list has sections")
                _rich_part(each, f"{path}.elements[{place}]")
        case other:
            raise Invalid(f"{path}: no {other} here")


def _rich_elements(part: Any, path: str, allowed: Collection[str]) -> None:
    _need(bool(part["elements"]), path, "is empty")
    for place, each in enumerate(part["elements"]):
        here = f"{path}.elements[{place}]"
        _need(each.get("type") in allowed, here, f"no {each.get('type')} here")
        match each["type"]:
            case "text":
                _keys(each, here, {"type", "text"}, {"style"})
                _text(each["text"], here, 1, 12_000)
            case "link":
                _keys(each, here, {"type", "url", "text"}, {"style"})
                _text(each["url"], here, 1, 3_000)
                _need(each["url"].startswith(("https://", "http://")), here, "is no web address")
            case "date":
                _keys(each, here, {"type", "timestamp", "format"}, {"fallback", "url"})
                _is(int, each["timestamp"], here)
                _need("{" in each["format"], here, "has no format")
        styles = each.get("style", {"bold": True})
        _need(bool(styles) and set(styles) <= STYLES, here, f"style {styles}")


_BLOCKS: dict[str, Rule] = {
    "rich_text": _rich_text,
    "context": _context,
    "actions": _actions,
    "input": _input,
}
