"""What an operator sees of a server: its log, its metrics, its traces. Only `handraise serve` sets up logging."""

from handraise.server.observing.metrics import Metrics
from handraise.server.observing.requests import ObservedRequests
from handraise.server.observing.traces import Traces
from handraise.server.observing.watching import WatchedEngine, watched_directory

__all__ = ["Metrics", "ObservedRequests", "Traces", "WatchedEngine", "watched_directory"]
