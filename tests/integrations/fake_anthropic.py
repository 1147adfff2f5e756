"""Anthropic's messages API on loopback: streams a script of tool calls, and refuses what the real one would refuse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Block = dict[str, Any]
KEY = "sk-ant-test"


def tool_use(call_id: str, name: str, **arguments: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@dataclass
class Anthropic:
    """What the model says: one turn of tool calls after another, each until all have results, then `All done.`"""

    url: str = ""
    script: list[Block | list[Block]] = field(default_factory=list)
    results: dict[str, Block] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seen: list[set[str]] = field(default_factory=list)

    def text_of(self, call_id: str) -> str:
        """What the model got to read as the result of a call."""
        content = self.results[call_id]["content"]
        return content if isinstance(content, str) else "".join(each.get("text", "") for each in content)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if problem := self._problem(request, body):
            self.problems.append(problem)
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": problem}}
            return web.json_response(error, status=400)
        blocks = self._next(body)
        stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        if not body.get("stream"):
            return web.json_response(_message(body["model"], blocks, stop))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in _events(body["model"], blocks, stop):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response

    def _next(self, body: dict[str, Any]) -> list[Block]:
        if not body.get("tools"):  # a side errand of the client's, such as a title
            return [{"type": "text", "text": "A title"}]
        done = {each["tool_use_id"]: each for each in _blocks(body, "tool_result")}
        self.results |= done
        self.seen.append(set(done))
        for turn in self.script:
            calls = turn if isinstance(turn, list) else [turn]
            if any(call["id"] not in done for call in calls):
                return [{"type": "text", "text": "I go on."}, *calls]
        return [{"type": "text", "text": "All done."}]

    def _problem(self, request: web.Request, body: dict[str, Any]) -> str | None:
        if request.headers.get("x-api-key") != KEY:
            return "x-api-key is wrong"
        if "anthropic-version" not in request.headers:
            return "anthropic-version is missing"
        if not {"model", "max_tokens", "messages"} <= body.keys():
            return "model, max_tokens and messages are required"
        called = [each["id"] for each in _blocks(body, "tool_use")]
        answered = [each["tool_use_id"] for each in _blocks(body, "tool_result")]
        if called != answered:
            return f"tool_use {called} without tool_result {answered} right behind it"
        return None


def _blocks(body: dict[str, Any], kind: str) -> Iterator[Block]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from (each for each in message["content"] if each["type"] == kind)


def _message(model: str, blocks: list[Block], stop: str | None) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    return {**about, "content": blocks, "stop_reason": stop, "usage": usage}


def _events(model: str, blocks: list[Block], stop: str) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message(model, [], None)}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@asynccontextmanager
async def anthropic(*script: Block) -> AsyncIterator[Anthropic]:
    """The API, with this script."""
    api = Anthropic(script=list(script))
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/messages", api.messages)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()
    assert not api.problems
