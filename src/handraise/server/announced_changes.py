"""Announces changes of rights, so that every server looks at its open streams again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from handraise.model.questions import Ref
from handraise.ports import Directory, credentials_of

_CHANGES = frozenset(
    {
        "revoke_key",
        "put_person",
        "set_away",
        "remove_person",
        "disable_person",
        "enable_person",
        "set_provided_rights",
        "put_group",
        "end_session",
        "end_provider_sessions",
    }
)
"""The calls after which a credential may be invalid, or may have other rights."""


def announce_changes(directory: Directory, announce: Callable[[Ref], None]) -> Directory:
    """Wrap a directory, so that changes of rights are announced after they are recorded."""
    return cast("Directory", _Announcing(directory, announce))


class _Announcing:
    def __init__(self, inner: Directory, announce: Callable[[Ref], None]) -> None:
        self._inner = inner
        self._announce = announce

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _CHANGES:
            found = self._announced(found)
        setattr(self, name, found)  # the next lookup does not come here
        return found

    def _announced(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        async def announced(workspace: str, *given: Any, **named: Any) -> Any:
            changed = await call(workspace, *given, **named)
            self._announce(credentials_of(workspace))
            return changed

        return announced
