"""JSON to and from services: what is sent, and objects in what came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class InvalidPayload(ValueError):
    """No message or form of ours could have sent what came."""


def as_json(value: Any) -> bytes:
    """The JSON that is sent: the same for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def read_object(content: str | bytes) -> dict[str, Any]:
    """The JSON object in a body; raises `InvalidPayload`."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidPayload("body") from None
    if not isinstance(found, dict):
        raise InvalidPayload("body")
    return found


def object_in(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object with this name, or an empty one."""
    found = payload.get(name)
    return found if isinstance(found, dict) else {}


def list_in(payload: Mapping[str, Any], name: str) -> list[Any]:
    """The list with this name, or an empty one."""
    found = payload.get(name)
    return found if isinstance(found, list) else []
