"""Hints as short texts: a JSON array of a workspace and ids of questions in it; an empty id means its feed."""

from __future__ import annotations

import json
from collections.abc import Iterable

from handraise.model.questions import Ref

LONGEST = 7_900
"""A NOTIFY carries less than 8,000 bytes, a datagram on the loopback more."""


def encoded(topics: Iterable[Ref]) -> Iterable[str]:
    """The topics as texts, none longer than `LONGEST` bytes if ids are as short as ours."""
    return (text for _, text in encoded_by_workspace(topics))


def encoded_by_workspace(topics: Iterable[Ref]) -> Iterable[tuple[str, str]]:
    """The topics as `encoded` makes them, each text with the workspace that it is about."""
    by_workspace: dict[str, list[str]] = {}
    for workspace, question_id in topics:
        by_workspace.setdefault(workspace, []).append(question_id)
    for workspace, ids in by_workspace.items():
        for text in _in_parts(workspace, ids):
            yield workspace, text


def _in_parts(workspace: str, ids: list[str]) -> Iterable[str]:
    text = json.dumps([workspace, *ids])
    if len(text) <= LONGEST or len(ids) == 1:
        return [text]
    half = len(ids) // 2
    return [*_in_parts(workspace, ids[:half]), *_in_parts(workspace, ids[half:])]


def decoded(text: str) -> list[Ref] | None:
    """The topics in a text; None if it cannot be read, because it may then be about anything."""
    try:
        hint = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(hint, list) or not hint or not all(isinstance(each, str) for each in hint):
        return None
    workspace, *ids = hint
    return [Ref(workspace, each) for each in ids]
