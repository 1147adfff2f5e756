"""Tools for tests: a scripted person, a manual clock, buses that fail on purpose, and the contract of backends.

`handraise.testing.contract` needs `pip install "handraise[testing]"`.
"""

from handraise.testing.buses import ManualBus, SilentBus
from handraise.testing.clock import ManualClock
from handraise.testing.promises import PROMISES, promise
from handraise.testing.scripted_person import StandIn

__all__ = ["PROMISES", "ManualBus", "ManualClock", "SilentBus", "StandIn", "promise"]
