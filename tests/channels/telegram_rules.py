"""What Telegram takes and what it refuses, and what people see of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

ARGUMENTS: dict[str, tuple[set[str], set[str]]] = {
    "getMe": (set(), set()),
    "getUpdates": (set(), {"offset", "limit", "timeout", "allowed_updates"}),
    "setWebhook": ({"url"}, {"secret_token", "allowed_updates", "max_connections", "drop_pending_updates"}),
    "sendMessage": (
        {"chat_id", "text"},
        {"entities", "link_preview_options", "reply_markup", "reply_parameters"},
    ),
    "sendPhoto": ({"chat_id", "photo"}, {"reply_parameters"}),
    "sendDocument": ({"chat_id", "document"}, {"reply_parameters", "disable_content_type_detection"}),
    "editMessageText": (
        {"chat_id", "message_id", "text"},
        {"entities", "link_preview_options", "reply_markup"},
    ),
    "editMessageReplyMarkup": ({"chat_id", "message_id"}, {"reply_markup"}),
    "answerCallbackQuery": ({"callback_query_id"}, {"text", "show_alert"}),
}
"""What a method must be given, and what it may be."""
LITERAL = ("code", "pre")
_KINDS = {"bold", "code", "pre", "text_link", "text_mention"}
_AUTOMATIC = re.compile(
    r"https?://\S+|(?<![\w@])@\w{3,}|(?<![\w/])/[A-Za-z]\w*|(?<!\w)#\w+|[\w.+-]+@[\w-]+\.\w+"
    r"|\b[\w-]+\.(?:example|com|org|net)\b"
)
"""What Telegram makes links, mentions and commands of by itself, outside of `code` and `pre`."""


class Invalid(Exception):
    """What Telegram would refuse."""


def check_message(body: Mapping[str, Any]) -> None:
    """Raise unless Telegram would take this as a message."""
    check_text(body["text"], body.get("entities", []))
    if body.get("link_preview_options") != {"is_disabled": True}:
        raise Invalid("a stranger's page would be shown below it")
    check_markup(body.get("reply_markup"))


def check_text(text: Any, entities: Any) -> None:
    """Raise unless this is a text with formats that fit it."""
    if not isinstance(text, str) or not text.strip():
        raise Invalid("message text is empty")
    units = text.encode("utf-16-le")
    length = len(units) // 2
    if length > 4_096:
        raise Invalid("message is too long")
    if text != text.strip():
        raise Invalid("Telegram cuts off blanks, and then the formats are in the wrong place")
    if len(entities) > 100:
        raise Invalid("Telegram forgets all formats behind the hundredth")
    end = 0
    for each in entities:
        start, size = each["offset"], each["length"]
        if each["type"] not in _KINDS:
            raise Invalid(f"can't parse entities: unknown type {each['type']}")
        if start < end or size < 1 or start + size > length:
            raise Invalid("can't parse entities: they overlap, or are out of the text")
        end = start + size
        if any(
            0xDC00 <= int.from_bytes(units[2 * at : 2 * at + 2], "little") <= 0xDFFF for at in (start, end)
        ):
            raise Invalid("can't parse entities: half of a character")
        if each["type"] == "text_link" and "." not in (urlsplit(each["url"]).hostname or ""):
            raise Invalid(f"entity URL '{each['url']}' is invalid: Wrong HTTP URL")


def check_markup(markup: Any) -> None:
    """Raise unless these are buttons, or a wish for a reply."""
    match markup:
        case None:
            return
        case {"force_reply": True, "input_field_placeholder": str(hint), "selective": bool(), **rest}:
            if rest or not 1 <= len(hint) <= 64:
                raise Invalid("reply markup is wrong")
        case {"inline_keyboard": list(rows), **rest} if rows and not rest:
            buttons = [each for row in rows for each in row]
            if len(buttons) > 100 or not all(1 <= len(row) <= 8 for row in rows):
                raise Invalid("reply markup is too long")
            for each in buttons:
                if each.keys() != {"text", "callback_data"} or not each["text"].strip():
                    raise Invalid("can't parse inline keyboard button")
                if not 1 <= len(each["callback_data"].encode()) <= 64:
                    raise Invalid("BUTTON_DATA_INVALID")
        case _:
            raise Invalid(f"can't parse reply keyboard markup: {markup}")


def as_text(text: str, entities: list[dict[str, Any]], *, edges: bool = False) -> str:
    """What people see: links with where they lead, and whatever Telegram makes of the rest by itself between ⟦ ⟧.

    With `edges`, boxes have one, and links are only their words.
    """
    units, shown, end = text.encode("utf-16-le"), "", 0
    for each in [*entities, {"type": None, "offset": len(units) // 2, "length": 0}]:
        start, size = each["offset"], each["length"]
        plain = units[2 * end : 2 * start].decode("utf-16-le")
        shown += _AUTOMATIC.sub(lambda found: f"⟦{found[0]}⟧", plain)
        inside = units[2 * start : 2 * (start + size)].decode("utf-16-le")
        match each["type"]:
            case "text_link" if not edges:
                shown += f"{inside} ({each['url']})"
            case "pre" if edges:
                shown += "\n".join(f"│ {line}" for line in inside.split("\n"))
            case "bold":
                shown += _AUTOMATIC.sub(lambda found: f"⟦{found[0]}⟧", inside)
            case _:
                shown += inside
        end = start + size
    return shown
