"""The ids of addresses that pages make, and what pages show of them: what may be secret is not shown again."""

from __future__ import annotations

import json
from hashlib import sha256

from handraise.channels.address_secrets import PUBLIC_PARTS
from handraise.model.deliveries import Address
from handraise.model.identities import fold_email
from handraise.model.json_values import Json
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext

_HIDDEN = "digest:"


def address_id_of(channel: str, to: Json) -> str:
    """The id of an address: who it is there, or a digest if that is nobody's business. A new secret changes no id."""
    held = to if isinstance(to, dict) else {}
    named = next((str(held[name]) for name in PUBLIC_PARTS.get(channel, ()) if held.get(name)), "")
    if named:
        return fold_email(named) if channel == "email" else named
    place = {name: value for name, value in held.items() if name != "secret"}
    return f"{_HIDDEN}{sha256(json.dumps(place, sort_keys=True).encode()).hexdigest()[:12]}"


def shown_id(address: Address) -> str:
    """The id of an address, which is not secret."""
    if not address.id.startswith(_HIDDEN):
        return visible_line(address.id)
    return gettext("(not shown: {digest})").format(digest=visible_line(address.id.removeprefix(_HIDDEN)))
