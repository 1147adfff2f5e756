"""What a provider wrote over SCIM, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from handraise.model.identities import fold_email
from handraise.model.json_values import Json
from handraise.model.provisioned import Provisioned, ProvisionedKind

Place = tuple[str, ProvisionedKind, str]


class MemoryProvisioned:
    """The part of the directory for SCIM. See `handraise.ports.provisioned` for what each method promises."""

    _provisioned: dict[Place, Provisioned]
    _provisioned_names: dict[Place, str]
    """The ids of documents, by their folded names."""

    def _now(self) -> datetime:
        raise NotImplementedError

    async def put_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str, *, name: str, document: dict[str, Json]
    ) -> Provisioned | None:
        """Store a document; see the port."""
        place, name_place, now = (
            (workspace, kind, resource_id),
            (workspace, kind, fold_email(name)),
            self._now(),
        )
        if self._provisioned_names.get(name_place, resource_id) != resource_id:
            return None
        before = self._provisioned.get(place)
        await self.remove_provisioned(workspace, kind, resource_id)
        made = Provisioned(
            workspace=workspace, kind=kind, id=resource_id, document=document, created_at=now, changed_at=now
        )
        self._provisioned[place] = made if before is None else replace(made, created_at=before.created_at)
        self._provisioned_names[name_place] = resource_id
        return self._provisioned[place]

    async def find_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str
    ) -> Provisioned | None:
        """The document with an id; see the port."""
        return self._provisioned.get((workspace, kind, resource_id))

    async def find_provisioned_by_name(
        self, workspace: str, kind: ProvisionedKind, name: str
    ) -> Provisioned | None:
        """The document with a name; see the port."""
        found = self._provisioned_names.get((workspace, kind, fold_email(name)))
        return None if found is None else self._provisioned[workspace, kind, found]

    async def provisioned(self, workspace: str, kind: ProvisionedKind) -> Sequence[Provisioned]:
        """All documents of a kind; see the port."""
        places = sorted(place for place in self._provisioned if place[:2] == (workspace, kind))
        return [self._provisioned[place] for place in places]

    async def remove_provisioned(self, workspace: str, kind: ProvisionedKind, resource_id: str) -> bool:
        """Remove a document; see the port."""
        return self._remove_provisioned(workspace, kind, resource_id)

    def _remove_provisioned(self, workspace: str, kind: ProvisionedKind, resource_id: str) -> bool:
        for place, found in list(self._provisioned_names.items()):
            if place[:2] == (workspace, kind) and found == resource_id:
                del self._provisioned_names[place]
        return self._provisioned.pop((workspace, kind, resource_id), None) is not None
