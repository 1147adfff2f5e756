"""This process's memory: for trying things out and for tests. Everything ends with the process."""

from handraise.backends.memory.backend import open_memory
from handraise.backends.memory.bus import MemoryBus
from handraise.backends.memory.directory import MemoryDirectory
from handraise.backends.memory.store import MemoryStore

__all__ = ["MemoryBus", "MemoryDirectory", "MemoryStore", "open_memory"]
