"""A stand-in for a model API: it speaks OpenAI chat completions on loopback, from a script.

It takes only requests that the real one would take: no call or result of a client's layer, each result behind
its call, each call with its result. Anything else gets status 400, and the script does not go on.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LEGAL_ROLES = {"system", "user", "assistant", "tool"}

Message = dict[str, Any]


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool, as a model writes it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def next_message(messages: list[Message]) -> Message:
    """What the model says next: it looks around, asks how to deploy, and does as it was told."""
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    if not results:
        look = call("call_1", "running_version", service="shop")
        decide = call(
            "call_2",
            "human_intervention_request",
            prompt="How shall I deploy shop v2?",
            options=["Blue-green", "Canary", "Cancel"],
            context={"service": "shop", "to": "v2"},
        )
        return {"role": "assistant", "content": None, "tool_calls": [look, decide]}
    strategy = json.loads(results["call_2"])["text"]
    return {"role": "assistant", "content": f"Deployed shop v2 over {results['call_1']} as {strategy}."}


def problems_of(request: dict[str, Any]) -> list[str]:
    """Why the real API would refuse this request, or why it has seen what is not for it."""
    problems = []
    waiting: list[str] = []
    for place, message in enumerate(request["messages"]):
        where = f"messages[{place}]"
        if message.get("role") not in LEGAL_ROLES:
            problems.append(f"{where} has the role {message.get('role')!r}")
        if message.get("role") == "tool":
            if message["tool_call_id"] not in waiting:
                problems.append(f"{where} is a result without its call")
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            problems.append(f"{where} comes before the results of {waiting}")
        waiting = [each["id"] for each in message.get("tool_calls") or ()]
    if waiting:
        problems.append(f"there is no result for {waiting}")
    text = json.dumps(request)
    problems += [
        f"there is a trace of {trace}" for trace in ("client.", "hitl_", "approval_") if trace in text
    ]
    return problems


class Completions(BaseHTTPRequestHandler):
    """POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a legal request with the next message, and any other with 400."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        problems = problems_of(request)
        if problems:
            self.reply(400, {"error": {"message": "; ".join(problems), "type": "invalid_request_error"}})
            return
        message = next_message(request["messages"])
        reason = "tool_calls" if "tool_calls" in message else "stop"
        self.reply(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            },
        )

    def reply(self, status: int, body: dict[str, Any]) -> None:
        """Send JSON, and say on standard output what was sent."""
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
        print(status, body.get("error", {}).get("message", "legal"), flush=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name is the base class's
        """Nothing else on the terminal."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
