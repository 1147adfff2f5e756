"""What an identity provider wrote about a person or a group over SCIM."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from handraise.model.json_values import Json

ProvisionedKind = Literal["User", "Group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """A document of the provider. `id` is the name of the person or of the group here."""

    workspace: str
    kind: ProvisionedKind
    id: str
    document: dict[str, Json] = field(repr=False)
    created_at: datetime
    changed_at: datetime
