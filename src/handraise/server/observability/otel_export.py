"""Export of traces and metrics to an OpenTelemetry collector, if the settings turn it on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise import __version__
from handraise.model.errors import MissingExtra
from handraise.server.observability.metrics import Metrics
from handraise.server.observability.traces import Traces
from handraise.server.settings import ServerSettings


@asynccontextmanager
async def open_telemetry(settings: ServerSettings) -> AsyncIterator[tuple[Metrics, Traces]]:
    """Open metrics and traces, exported over OTLP if that is on. At the end, what is left is sent.

    The usual `OTEL_…` variables configure the export.
    """
    if not settings.otel:
        yield Metrics(), Traces()
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 -- an extra
            OTLPMetricExporter,
        )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 -- an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise MissingExtra("opentelemetry-exporter-otlp-proto-http", "otel") from error

    name = os.environ.get("OTEL_SERVICE_NAME", "handraise")
    resource = Resource.create({"service.name": name, "service.version": __version__})
    spans = TracerProvider(resource=resource, shutdown_on_exit=False)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    numbers = MeterProvider([reader], resource, shutdown_on_exit=False)
    try:
        yield Metrics(numbers.get_meter("handraise", __version__)), Traces(spans)
    finally:
        await asyncio.gather(asyncio.to_thread(spans.shutdown), asyncio.to_thread(numbers.shutdown))
