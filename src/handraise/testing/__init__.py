"""Tools for tests: people who answer, a channel that keeps messages, a manual clock, and the contract of backends.

pytest finds the fixtures of `handraise.testing.plugin` by itself. `handraise.testing.contract` needs
`pip install "handraise[testing]"`.

A name is imported when it is first used: pytest imports this package at every start.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handraise.testing.buses import ManualBus, SilentBus
    from handraise.testing.clock import ManualClock
    from handraise.testing.fake_channel import FakeChannel, SentMessage
    from handraise.testing.person import Person
    from handraise.testing.promises import PROMISES, promise
    from handraise.testing.reactions import after, approve, ask_back, attempt, decline, deny, never, send_back
    from handraise.testing.scripted_people import PersonError

__all__ = [
    "PROMISES",
    "FakeChannel",
    "ManualBus",
    "ManualClock",
    "Person",
    "PersonError",
    "SentMessage",
    "SilentBus",
    "after",
    "approve",
    "ask_back",
    "attempt",
    "decline",
    "deny",
    "never",
    "promise",
    "send_back",
]

_MODULES = {
    "buses": ("ManualBus", "SilentBus"),
    "clock": ("ManualClock",),
    "fake_channel": ("FakeChannel", "SentMessage"),
    "person": ("Person",),
    "promises": ("PROMISES", "promise"),
    "reactions": ("after", "approve", "ask_back", "attempt", "decline", "deny", "never", "send_back"),
    "scripted_people": ("PersonError",),
}


if not TYPE_CHECKING:  # else a type checker would take any name

    def __getattr__(name: str) -> object:
        for module, names in _MODULES.items():
            if name in names:
                globals()[name] = found = getattr(_import_module(f"{__name__}.{module}"), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
