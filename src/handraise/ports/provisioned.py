"""What a provider wrote over SCIM about people and groups. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handraise.model.json_values import Json
from handraise.model.provisioned import Provisioned, ProvisionedKind


class ProvisionedResources(Protocol):
    """A part of the directory: what only the provider needs to see again, such as its own ids.

    It gives nobody a right, so it leaves no event. That of a person is removed with the person.
    """

    async def put_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str, *, name: str, document: dict[str, Json]
    ) -> Provisioned | None:
        """Store the document of a person or a group, in place of the earlier one.

        None, and nothing changes, if another one of its kind has this name. Names are compared by `fold_email`.
        """
        ...

    async def find_provisioned(
        self, workspace: str, kind: ProvisionedKind, resource_id: str
    ) -> Provisioned | None:
        """The document of the person or the group with this id."""
        ...

    async def find_provisioned_by_name(
        self, workspace: str, kind: ProvisionedKind, name: str
    ) -> Provisioned | None:
        """The document with this name."""
        ...

    async def provisioned(self, workspace: str, kind: ProvisionedKind) -> Sequence[Provisioned]:
        """All documents of a kind, in the order of their ids."""
        ...

    async def remove_provisioned(self, workspace: str, kind: ProvisionedKind, resource_id: str) -> bool:
        """Remove a document; False if there is none."""
        ...
