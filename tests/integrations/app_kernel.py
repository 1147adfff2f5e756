"""A real Jupyter kernel, and a front end that presses its widgets, as the messages of the protocol say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from tests.integrations.processes import SOON

CLASS = "handraise-question"


class Notebook:
    """Cells that are executed, and the widgets that they have made, by the ids of their models."""

    def __init__(self, client: AsyncKernelClient) -> None:
        self._client = client
        self.widgets: dict[str, dict[str, Any]] = {}
        self.printed = ""

    async def run(self, code: str) -> str:
        """Execute a cell; what it printed, or the data that it displayed."""
        before = len(self.printed)
        message = self._client.execute(code, stop_on_error=False)
        await self._read_until(message)
        return self.printed[before:]

    async def press(self, label: str) -> None:
        """Press the button with this label."""
        await self.send(self.find(description=label), {"method": "custom", "content": {"event": "click"}})

    async def enter(self, model: str, value: Any) -> None:
        """Change the value of a widget."""
        await self.send(model, {"method": "update", "state": {"value": value}, "buffer_paths": []})

    def find(self, **state: Any) -> str:
        """The newest widget with this state."""
        found = [
            model
            for model, its in self.widgets.items()
            if all(its.get(name) == value for name, value in state.items())
        ]
        assert found, f"no widget has {state}: {[its.get('description') for its in self.widgets.values()]}"
        return found[-1]

    def shown(self) -> str:
        """What the newest question shows now: its HTML, and the labels of its buttons."""
        tops = [model for model, its in self.widgets.items() if CLASS in its.get("_dom_classes", ())]
        return self._html(tops[-1]) if tops else ""

    async def shows(self, text: str) -> None:
        """Return once this text is shown."""
        until = time.monotonic() + SOON
        while text not in self.shown():
            assert time.monotonic() < until, f"{text!r} is not shown but:\n{self.shown()}"
            await self._read_one(0.2)

    def _html(self, reference: str) -> str:
        its = self.widgets[reference.removeprefix("IPY_MODEL_")]
        inner = [self._html(child) for child in its.get("children", ())]
        own = str(its.get("value", "")) if its["_model_name"] == "HTMLModel" else its.get("description", "")
        return "\n".join([str(own), *inner])

    async def send(self, model: str, data: dict[str, Any]) -> None:
        """Send what the front end says about a widget."""
        content = {"comm_id": model, "data": data}
        self._client.shell_channel.send(self._client.session.msg("comm_msg", content))

    async def _read_until(self, message: str) -> None:
        until = time.monotonic() + SOON
        while time.monotonic() < until:
            got = await self._read_one(1)
            if got and got["parent_header"].get("msg_id") == message:
                if got["msg_type"] == "error":
                    raise AssertionError("\n".join(got["content"]["traceback"]))
                if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                    return
        raise AssertionError("the cell does not end")

    async def _read_one(self, within: float) -> dict[str, Any] | None:
        try:
            got: dict[str, Any] = await self._client.get_iopub_msg(timeout=within)
        except Empty:
            return None
        content = got["content"]
        match got["msg_type"]:
            case "comm_open":
                self.widgets[content["comm_id"]] = dict(content["data"].get("state", {}))
            case "comm_msg" if content["data"].get("method") in ("update", "echo_update"):
                self.widgets.setdefault(content["comm_id"], {}).update(content["data"]["state"])
            case "stream":
                self.printed += content["text"]
            case "execute_result" | "display_data":
                self.printed += str(content["data"])
        return got


@asynccontextmanager
async def kernel(folder: Path) -> AsyncIterator[Notebook]:
    """A kernel of its own process, which works in this folder."""
    manager = AsyncKernelManager()
    await manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        async with asyncio.timeout(SOON):
            await client.wait_for_ready()
        yield Notebook(client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
