"""Requests that make no sense, as somebody could make them of genuine ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The same with one bit of it another one."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def mangled(value: Any, chance: random.Random, nonsense: Sequence[Any]) -> Any:
    """The same with one thing in it that makes no sense."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        if chance.random() < 0.1:
            return {each: one for each, one in value.items() if each != name}
        return {**value, name: mangled(value[name], chance, nonsense)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        return [*value[:place], mangled(value[place], chance, nonsense), *value[place + 1 :]]
    return chance.choice(nonsense)
