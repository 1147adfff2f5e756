"""What SQLite's settings and file system mean for an acknowledged write, and which are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from handraise.model.errors import UnsafeStore
from handraise.ports import Durability

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gfs2", "ocfs2"}
    | {"beegfs", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs2"}
)
_MEMORY = frozenset({"tmpfs", "ramfs"})
_MOUNTS = Path("/proc/self/mounts")
_FULL = 2


def check_file_system(path: Path) -> str:
    """The kind of file system that the file is on, or `UnsafeStore` if other hosts share it."""
    kind = file_system_of(path, _MOUNTS.read_text()) if _MOUNTS.exists() else "unknown"
    if kind in _NETWORK:
        raise UnsafeStore(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Use a local file, or PostgreSQL."
        )
    return kind


def file_system_of(path: Path, mounts: str) -> str:
    """The kind of file system at `path`, from the text of a mount table; the deepest mount counts."""
    found, kind = "", "unknown"
    for line in mounts.splitlines():
        _, where, named, *_ = line.split(" ")
        where = where.replace("\\040", " ")
        inside = Path(where) in (path, *path.parents)
        if inside and len(where) >= len(found):
            found, kind = where, named
    return kind


def durability_of(connection: sqlite3.Connection, file_system: str) -> Durability:
    """What an acknowledged write survives with this connection's settings, or `UnsafeStore`."""
    journal: str = connection.execute("pragma journal_mode").fetchone()[0]
    synchronous: int = connection.execute("pragma synchronous").fetchone()[0]
    if journal != "wal" or synchronous < _FULL:
        raise UnsafeStore(
            f"SQLite runs with journal_mode={journal} and synchronous={synchronous} here; "
            "Handraise needs wal and full."
        )
    survives = "a crash of any process and of the host; not the loss of its disk"
    if file_system in _MEMORY:
        survives = f"a crash of any process; not a restart of the host, whose memory holds it ({file_system})"
    settings = {"journal_mode": journal, "synchronous": "full", "file_system": file_system}
    return Durability(survives=survives, settings=settings)
