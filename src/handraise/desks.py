"""Desks: how they are opened, and what you need for a store or ids of your own."""

from handraise.desk.ids import counted_ids, uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import DeskOptions, desk_from_store, open_desk
from handraise.ports import Durability, Recovered
from handraise.ports.desk import Desk, Page
from handraise.wire.credentials import Credentials

__all__ = [
    "Credentials",
    "Desk",
    "DeskOptions",
    "Durability",
    "LocalDesk",
    "Page",
    "Recovered",
    "counted_ids",
    "desk_from_store",
    "open_desk",
    "uuid7_ids",
]
