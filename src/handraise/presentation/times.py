"""Instants as people read them."""

from __future__ import annotations

from datetime import datetime


def moment_text(at: datetime) -> str:
    """An instant in full."""
    return f"{at.day} {at:%B %Y, %H:%M} UTC"
