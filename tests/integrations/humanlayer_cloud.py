"""A stand-in for HumanLayer's cloud on loopback: the two resources that its SDK posts and polls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "hl-a-key"
BASE = "/humanlayer/v1"


class Cloud:
    """What was asked, and how the person answers: contacts with a text, calls with a decision."""

    def __init__(self, response: str, *, approved: bool, comment: str = "") -> None:
        self.asked: list[dict[str, Any]] = []
        self._status = {
            "contact_requests": {"response": response},
            "function_calls": {"approved": approved, "comment": comment},
        }

    def get(self, kind: str, call_id: str) -> dict[str, Any] | None:
        """One of them, answered."""
        found = next((each for each in self.asked if each["call_id"] == call_id), None)
        return None if found is None else found | {"status": self._status[kind]}


@contextmanager
def serving(cloud: Cloud) -> Iterator[str]:
    """The address of its API."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if (kind := self._kind()) is not None:
                cloud.asked.append(json.loads(body) | {"status": None})
                self._send(200, cloud.asked[-1])
            del kind

        def do_GET(self) -> None:
            if (kind := self._kind()) is not None:
                found = cloud.get(kind, self.path.rpartition("/")[2])
                self._send(200 if found else 404, found or {})

        def _kind(self) -> str | None:
            """The resource, for somebody with the key."""
            parts = self.path.removeprefix(f"{BASE}/").split("/")
            if self.headers["authorization"] != f"Bearer {KEY}":
                self._send(401, {})
            elif parts[0] not in ("contact_requests", "function_calls"):
                self._send(404, {})
            else:
                return parts[0]
            return None

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{BASE}"
        finally:
            server.shutdown()
            thread.join()
