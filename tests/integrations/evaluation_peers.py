"""Stand-ins for the clouds of Langfuse and LangSmith: what their SDKs send over HTTP is read, checked and kept by its id."""

from __future__ import annotations

import base64
import email
import email.policy
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT = str(uuid.UUID(int=7))
PUBLIC_KEY, SECRET_KEY = "pk-lf-1", "sk-lf-1"
API_KEY = "lsv2_pt_1"


class Peer(ThreadingHTTPServer):
    """One cloud. `kept` has what it has stored, by id; `received` counts what came."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.kept: dict[str, dict[str, Any]] = {}
        self.received = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def keep(self, item: dict[str, Any]) -> None:
        """Store something; what has the same id is replaced."""
        self.received += 1
        self.kept[item["id"]] = item


@contextmanager
def langfuse_cloud() -> Iterator[Peer]:
    """A Langfuse that takes batches of scores."""
    with _serving(Peer(_Langfuse)) as peer:
        yield peer


@contextmanager
def langsmith_cloud() -> Iterator[Peer]:
    """A LangSmith with one project, that takes feedback as compressed multipart."""
    with _serving(Peer(_LangSmith)) as peer:
        yield peer


@contextmanager
def _serving(peer: Peer) -> Iterator[Peer]:
    thread = threading.Thread(target=peer.serve_forever, daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        peer.shutdown()
        peer.server_close()
        thread.join(timeout=30)


class _Handler(BaseHTTPRequestHandler):
    server: Peer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as it is there
        """Say nothing."""

    def body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            data = b"".join(parts)
        else:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "zstd":
            zstandard: Any = import_module("zstandard")  # it comes with LangSmith
            return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data))
        return data

    def say(self, status: int, said: object) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Langfuse(_Handler):
    @property
    def is_known(self) -> bool:
        known = base64.b64encode(f"{PUBLIC_KEY}:{SECRET_KEY}".encode()).decode()
        return self.headers.get("authorization") == f"Basic {known}"

    def do_GET(self) -> None:
        if not self.is_known:
            self.say(401, {"message": "Invalid credentials"})
        elif urlsplit(self.path).path == "/api/public/projects":
            project = {
                "id": "p-1",
                "name": "refunds",
                "organization": {"id": "o-1", "name": "acme"},
                "metadata": {},
            }
            self.say(200, {"data": [project]})
        else:
            self.say(404, {"message": self.path})

    def do_POST(self) -> None:
        data, path = self.body(), urlsplit(self.path).path
        if not self.is_known:
            self.say(401, {"message": "Invalid credentials"})
        elif path == "/api/public/ingestion":
            batch = json.loads(data)["batch"]
            for event in batch:
                assert event["type"] == "score-create"
                self.server.keep(event["body"])
            self.say(
                207, {"successes": [{"id": event["id"], "status": 201} for event in batch], "errors": []}
            )
        else:
            self.say(404, {"message": path})


class _LangSmith(_Handler):
    def do_GET(self) -> None:
        place = urlsplit(self.path)
        if place.path == "/info":
            config = {
                "use_multipart_endpoint": True,
                "size_limit": 100,
                "size_limit_bytes": 20_971_520,
                "scale_up_nthreads_limit": 4,
                "scale_up_qsize_trigger": 100,
                "scale_down_nempty_trigger": 4,
            }
            flags = {"zstd_compression_enabled": True}
            self.say(200, {"version": "0.13.0", "batch_ingest_config": config, "instance_flags": flags})
        elif place.path == "/sessions" and parse_qs(place.query)["name"] == ["refunds"]:
            session = {"id": PROJECT, "name": "refunds", "tenant_id": PROJECT, "reference_dataset_id": None}
            self.say(200, [session])
        else:
            self.say(200, [])

    def do_POST(self) -> None:
        data = self.body()
        if self.headers.get("x-api-key") != API_KEY:
            self.say(401, {"detail": "Invalid token"})
        elif urlsplit(self.path).path == "/runs/multipart":
            head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
            message = email.message_from_bytes(head + data, policy=email.policy.HTTP)
            for part in message.iter_parts():
                name = str(part.get_param("name", header="content-disposition"))
                kind, _, feedback_id = name.partition(".")
                content = part.get_payload(decode=True)
                assert isinstance(content, bytes)
                feedback = json.loads(content)
                assert (kind, feedback_id) == ("feedback", feedback["id"])
                self.server.keep(feedback)
            self.say(202, {"message": "Runs batch ingested"})
        else:
            self.say(404, {"detail": self.path})
