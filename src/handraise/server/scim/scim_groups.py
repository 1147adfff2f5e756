"""Groups as SCIM has them. `id` is the group's name here; it is the display name with which it was created.

If the provider renames a group, its name here stays: questions, routing and policies refer to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from scim2_models import (
    Context,
    ForbiddenException,
    InvalidValueException,
    Meta,
    NotFoundException,
    Reference,
    UniquenessException,
)

from handraise.model.errors import StoreUnavailable
from handraise.model.identities import fold_email
from handraise.model.json_values import text_problem
from handraise.model.provisioned import Provisioned
from handraise.server.context import ServerContext
from handraise.server.scim.scim_resources import BASE, POLICY, Group, GroupMember

_LONGEST = 200
_TRIES = 20
"""How often a change is made again if others change the same group."""


class _Changed(Exception):
    """Somebody else has changed the group since it was read."""


@dataclass(frozen=True, slots=True)
class ScimGroups:
    """The groups of one workspace, for a program with a SCIM key: `by` is its name in the audit trail."""

    ctx: ServerContext
    workspace: str
    by: str

    async def find(self, group_id: str) -> Group:
        """One group; raises `NotFoundException`."""
        people, stored = await self._read(group_id)
        return self._group(group_id, people, stored)

    async def all(self) -> AsyncIterator[Group]:
        """All groups, also those of the provider that have nobody."""
        found = await self.ctx.directory.provisioned(self.workspace, "Group")
        documents, groups = (
            {each.id: each for each in found},
            await self.ctx.directory.groups(self.workspace),
        )
        for name in sorted(documents.keys() | groups.keys()):
            yield self._group(name, groups.get(name, ()), documents.get(name))

    async def with_name(self, display_name: str) -> list[Group]:
        """Those that may have this display name."""
        return [each async for each in self.all() if _same(each.display_name, display_name)]

    async def create(self, wanted: Group) -> Group:
        """Add a group; raises `UniquenessException` if there is one of this name."""
        name = (wanted.display_name or "").strip()
        _check_name(name)
        if "/" in name:
            raise InvalidValueException(detail="The name of a group must not contain a slash.")
        people = await self._people(wanted)
        if await self.with_name(name) or name in await self.ctx.directory.groups(self.workspace):
            raise UniquenessException(detail=f"There is a group {name!r} here already.")
        stored = await self._write(name, wanted)
        if people:
            await self.ctx.directory.put_group(self.workspace, name, people, by=self.by)
        return self._group(name, people, stored)

    async def change(self, group_id: str, change: Callable[[Group], Group]) -> Group:
        """Change a group that a provider made. `change` is called again if somebody else has changed it meanwhile."""
        for _ in range(_TRIES):
            before, stored = await self._read_own(group_id)
            wanted = change(self._group(group_id, before, stored))
            people = await self._people(wanted)
            _check_name((wanted.display_name or "").strip())

            def check(now: Sequence[str], before: Sequence[str] = before) -> None:
                if list(now) != list(before):
                    raise _Changed

            try:
                if people != sorted(before):
                    await self.ctx.directory.put_group(
                        self.workspace, group_id, people, by=self.by, check=check
                    )
            except _Changed:
                continue
            return self._group(group_id, people, await self._write(group_id, wanted))
        raise StoreUnavailable(f"Others change the group {group_id!r} all the time; try again.")

    async def remove(self, group_id: str) -> None:
        """Remove a group; raises what `_read_own` raises."""
        await self._read_own(group_id)
        await self.ctx.directory.put_group(self.workspace, group_id, [], by=self.by)
        await self.ctx.directory.remove_provisioned(self.workspace, "Group", group_id)

    async def _read(self, group_id: str) -> tuple[Sequence[str], Provisioned | None]:
        stored = None
        if not text_problem(group_id):
            stored = await self.ctx.directory.find_provisioned(self.workspace, "Group", group_id)
        people = (await self.ctx.directory.groups(self.workspace)).get(group_id)
        if stored is None and people is None:
            raise NotFoundException(detail="There is no such group here.")
        return people or (), stored

    async def _read_own(self, group_id: str) -> tuple[Sequence[str], Provisioned]:
        """A group that a provider made; raises `NotFoundException`, or `ForbiddenException` for any other."""
        people, stored = await self._read(group_id)
        if stored is None:
            raise ForbiddenException(
                detail="This is a group that an administrator made: only administrators change or remove it."
            )
        return people, stored

    async def _write(self, name: str, wanted: Group) -> Provisioned:
        document = wanted.model_dump(
            scim_ctx=Context.DEFAULT,
            scim_policy=POLICY,
            include={"display_name", "external_id"},
            exclude_none=True,
        )
        stored = await self.ctx.directory.put_provisioned(
            self.workspace, "Group", name, name=wanted.display_name or name, document=document
        )
        if stored is None:
            raise UniquenessException(detail=f"Another group has the name {wanted.display_name!r}.")
        return stored

    async def _people(self, wanted: Group) -> list[str]:
        """The names of a group's people; raises `InvalidValueException` for one who is not here."""
        names = {each.value or "" for each in wanted.members or ()}
        if any(each.type == "Group" for each in wanted.members or ()):
            raise InvalidValueException(detail="A group here has people, and no groups.")
        for name in names:
            if text_problem(name) or await self.ctx.directory.find_person(self.workspace, name) is None:
                raise InvalidValueException(detail=f"There is nobody with the id {name[:_LONGEST]!r} here.")
        return sorted(names)

    def _group(self, name: str, people: Sequence[str], stored: Provisioned | None) -> Group:
        document: dict[str, Any] = {} if stored is None else dict(stored.document)
        written = Group.model_validate(document, scim_policy=POLICY)
        base = f"{self.ctx.settings.base_url}{BASE}"
        meta = Meta(resource_type="Group", location=f"{base}/Groups/{quote(name, safe='')}")
        if stored is not None:
            meta.created, meta.last_modified = stored.created_at, stored.changed_at
        return Group(
            id=name,
            external_id=written.external_id,
            display_name=written.display_name or name,
            members=[
                GroupMember(
                    value=each,
                    ref=Reference(f"{base}/Users/{quote(each, safe='')}"),
                    type="User",
                )
                for each in people
            ]
            or None,
            meta=meta,
        )


def _check_name(name: str) -> None:
    if not name or len(name) > _LONGEST or text_problem(name):
        raise InvalidValueException(detail=f"The name of a group has 1 to {_LONGEST} characters.")


def _same(one: str | None, other: str) -> bool:
    return one is not None and fold_email(one) == fold_email(other)
