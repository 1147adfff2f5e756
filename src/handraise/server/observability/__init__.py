"""What an operator sees of a server: its log, its metrics, its traces. Only `handraise serve` sets up logging."""

from handraise.server.observability.instrumented_engine import WatchedEngine, watched_directory
from handraise.server.observability.metrics import Metrics
from handraise.server.observability.request_log import ObservedRequests
from handraise.server.observability.traces import Traces

__all__ = ["Metrics", "ObservedRequests", "Traces", "WatchedEngine", "watched_directory"]
