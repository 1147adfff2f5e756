"""With OpenTelemetry wanted, a collector gets the spans and the numbers, the last ones too."""

from __future__ import annotations

import gzip
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.command import SOON, serving


class Collector:
    """Speaks OTLP over HTTP on loopback, and keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: set[str] = set()
        self.metrics: set[str] = set()
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.services |= {
                    each.value.string_value
                    for each in traced.resource.attributes
                    if each.key == "service.name"
                }
                self.spans |= {span.name for scope in traced.scope_spans for span in scope.spans}
        elif path == "/v1/metrics":
            for counted in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {metric.name for scope in counted.scope_metrics for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.mark.slow("starts a server; test_traces.py and test_metrics.py have what is counted")
def test_the_collector_gets_spans_and_numbers_also_at_the_end(collector: Collector, tmp_path: Path) -> None:
    port = collector.server.server_address[1]
    with serving(
        f"sqlite:///{tmp_path / 'q.db'}",
        tmp_path,
        otel="true",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
        OTEL_SERVICE_NAME="asking",
    ) as server:
        traced = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        assert httpx2.get(f"{server.address}/v1/me", headers=traced, timeout=SOON).status_code == 401
        server.send(signal.SIGTERM)
        assert server.wait() == 0
        (line,) = [line for line in server.log if line["event"] == "request"]
        assert line["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert collector.spans == {"GET /v1/me"}
    assert collector.services == {"asking"}
    assert {"handraise.http_requests", "handraise.questions_pending", "handraise.waits"} <= collector.metrics
