"""What PostgreSQL's settings mean for an acknowledged write, and which of them are refused."""

from __future__ import annotations

from collections.abc import Mapping

from handraise.model.errors import UnsafeStore
from handraise.ports import Durability


def durability_of(settings: Mapping[str, str]) -> Durability:
    """What an acknowledged write survives under these settings, or `UnsafeStore`."""
    if settings.get("fsync") == "off":
        raise UnsafeStore(
            "PostgreSQL runs with fsync=off, so a crash can lose or corrupt answers. Turn it on."
        )
    if settings.get("full_page_writes") == "off":
        raise UnsafeStore(
            "PostgreSQL runs with full_page_writes=off, so a crash can corrupt answers. Turn it on."
        )
    if settings.get("in_hot_standby") == "on":
        raise UnsafeStore(
            "This PostgreSQL is a standby, which takes no answers and shows what is recorded late. Use the address of its "
            "primary, or name all hosts in it."
        )
    commit = settings.get("synchronous_commit", "on")
    if commit == "off":
        raise UnsafeStore(
            "PostgreSQL runs with synchronous_commit=off, so a crash loses answers that people were told "
            "are recorded. Turn it on for this role or database."
        )
    standbys = settings.get("synchronous_standby_names", "")
    survives = "a crash of the database and of its host"
    if standbys and commit != "local":
        survives += f", and the loss of the primary (synchronous standbys: {standbys})"
    else:
        survives += "; not the loss of its disk, unless you replicate synchronously"
    kept = {name: setting for name, setting in settings.items() if name != "in_hot_standby"}
    return Durability(survives=survives, settings=kept)
