"""Make clean options from what models emit instead of a list of strings. Their number is not limited here."""

from __future__ import annotations

import json
from collections.abc import Iterable

from handraise.model.forms import Option
from handraise.model.json_values import Json, json_problems

_LABEL_KEYS = ("label", "description", "text", "title")


def coerce_choices(raw: Json) -> tuple[Option, ...]:
    """Make clean options from whatever a model sent; entries without a readable label are dropped.

    A dict's label is the first non-empty of `label`, `description`, `text` and `title`; `name` and `value`
    are identifiers, not labels, and are never shown. A dict's `id` is kept if it is a text; so are its `preview` and, if it
    is `recommended`, its `reason`. Two choices with
    the same label become one. Nothing is cut off: a list that is too long fails at ask time.
    """
    options: dict[str, Option] = {}
    for item in _items(raw):
        option = _option(item)
        if option is not None:
            options.setdefault(" ".join(option.label.casefold().split()), option)
    return tuple(options.values())


def _items(raw: Json) -> Iterable[Json]:
    if isinstance(raw, str):
        raw = _parsed(raw)
    if isinstance(raw, dict):
        inner = raw.get("choices", raw.get("options"))
        return _items(inner) if isinstance(inner, list) else [raw]
    if isinstance(raw, (list, tuple)):
        return raw
    return [] if raw is None else [raw]


def _option(item: Json) -> Option | None:
    if isinstance(item, str) and isinstance(parsed := _parsed(item), dict):
        return _option(parsed) or Option(id=item.strip(), label=item.strip())
    if isinstance(item, dict):
        label = next((text for key in _LABEL_KEYS if (text := _text(item.get(key)))), "")
        if not label:
            return None
        description = _text(item.get("description"))
        preview = item.get("preview")
        is_recommended = item.get("recommended") is True
        return Option(
            id=_text(item.get("id")) or label,
            label=label,
            description=description if description and description != label else None,
            # Not stripped: the blanks before its first line may be part of a drawing.
            preview=preview if isinstance(preview, str) and preview.strip() else None,
            recommended=is_recommended,
            reason=(_text(item.get("reason")) or None) if is_recommended else None,
        )
    label = _text(item)
    return Option(id=label, label=label) if label else None


def _parsed(text: str) -> Json:
    """The JSON in a string if it is a list or an object, else the string itself."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value.strip()
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or any(json_problems(value, "", depth=0))
    ):
        return ""
    return str(value)
