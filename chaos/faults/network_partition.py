"""A network that is cut silently between namespaces: packets vanish, and no connection ends."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chaos.faults.harness import Survived, judged
from chaos.faults.server_crash import SAFE
from chaos.faults.worker import merged, working
from chaos.history_checker import PATIENCE
from chaos.servers import own_servers


@dataclass(frozen=True)
class Link:
    """A namespace that reaches this one over its own link."""

    namespace: str
    near: str
    far: str
    here: str
    there: str

    def cut(self) -> None:
        """Let nothing through: packets go to a neighbour that does not exist."""
        nobody = ["lladdr", "02:00:00:00:00:01", "nud", "permanent"]
        _ip("neigh", "replace", self.there, "dev", self.near, *nobody)
        _ip("-n", self.namespace, "neigh", "replace", self.here, "dev", self.far, *nobody)

    def heal(self) -> None:
        """Let everything through again."""
        _ip("neigh", "delete", self.there, "dev", self.near)
        _ip("-n", self.namespace, "neigh", "delete", self.here, "dev", self.far)


@contextmanager
def linked() -> Iterator[Link]:
    """A namespace for as long as this context lasts."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise RuntimeError("A network of our own needs root and ip. Run: apt-get install iproute2")
    name = f"hr{uuid.uuid4().hex[:8]}"
    near, far = f"{name}a", f"{name}b"
    subnet = f"10.213.{int(name[2:4], 16)}"
    link = Link(name, near, far, f"{subnet}.1", f"{subnet}.2")
    _ip("netns", "add", name)
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        _ip("addr", "add", f"{link.here}/24", "dev", near)
        _ip("link", "set", near, "up")
        for command in (
            ["addr", "add", f"{link.there}/24", "dev", far],
            ["link", "set", far, "up"],
            ["link", "set", "lo", "up"],
        ):
            _ip("-n", name, *command)
        yield link
    finally:
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S607 -- as in any shell


async def network_cut(seconds: float, *, seed: int = 7) -> Survived:
    """Cut the network for some seconds under a load that lasts four times as long."""
    began, lasting = time.monotonic(), 4 * seconds
    with linked() as link:
        beyond = ["ip", "netns", "exec", link.namespace]
        with own_servers(1, SAFE, under=beyond, host=link.there) as (server,):
            async with (
                working(server.address, "near-1") as one,
                working(server.address, "near-2") as two,
            ):
                for worker in (one, two):
                    worker.tell("load", seconds=lasting, callers=3, seed=seed)
                await asyncio.sleep(lasting / 4)
                await asyncio.to_thread(link.cut)
                await asyncio.sleep(seconds)
                await asyncio.to_thread(link.heal)
                entries = merged([await one.heard(), await two.heard()])
            times = [entry.time for entry in entries if entry.type == "ok"]
            longest = max(later - earlier for earlier, later in itertools.pairwise(times)) / 1e9
            figures = f"cut for {seconds:g} s, on again {longest - seconds:.1f} s after it was healed"
            return await judged(server.address, entries, figures, began=began, patience=PATIENCE + seconds)
