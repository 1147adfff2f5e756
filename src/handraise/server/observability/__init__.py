"""Logs, metrics and traces. Only `handraise serve` configures logging."""

from handraise.server.observability.instrumented_engine import InstrumentedEngine, instrumented_directory
from handraise.server.observability.metrics import Metrics
from handraise.server.observability.request_log import RequestLogMiddleware
from handraise.server.observability.traces import Traces

__all__ = ["InstrumentedEngine", "Metrics", "RequestLogMiddleware", "Traces", "instrumented_directory"]
