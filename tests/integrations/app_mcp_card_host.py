"""A page that shows a card as clients do: in a sandbox at another origin, behind the policy that its resource asks for.

Two hosts speak the protocol of MCP Apps: a small one of our own, and the real `AppBridge` of `@modelcontextprotocol/ext-apps`.
Both forward the card's calls to a real MCP client.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from playwright.async_api import Browser, Locator, Page, Route

from handraise.integrations.mcp.card_calls import URI
from support.doc_pages import ROOT
from tests.integrations.app_mcp_clients import Table

EXT_APPS = ROOT / ".cache" / "ext-apps"
HOST, SANDBOX = "http://localhost:9", "http://127.0.0.1:9"
"""Nothing listens there: every request is answered by the test. Browsers take both for secure."""

SMALL = """
  const post = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const answers = {
    "ui/initialize": () => ({ protocolVersion: "2026-01-26", hostInfo: { name: "test", version: "1" }, hostCapabilities, hostContext }),
    "tools/call": callTool,
    "ui/message": message,
    "ui/update-model-context": updateContext,
    "ui/open-link": openLink,
  };
  addEventListener("message", async ({ source, data }) => {
    if (source !== frame.contentWindow || data?.jsonrpc !== "2.0" || !data.method) return;
    posted.push(data);
    if (data.method === "ui/notifications/size-changed") resized(data.params);
    if (data.method === "ui/notifications/initialized") {
      post({ method: "ui/notifications/tool-input", params: { arguments: toolArguments } });
      post({ method: "ui/notifications/tool-result", params: toolResult });
    }
    if (data.id === undefined) return;
    try {
      post({ id: data.id, result: await answers[data.method](data.params) });
    } catch (error) {
      post({ id: data.id, error: { code: -32000, message: String(error) } });
    }
  });
  window.changeContext = (params) => post({ method: "ui/notifications/host-context-changed", params });
  frame.src = card;
"""
BRIDGE = """
  const { AppBridge, PostMessageTransport } = ExtApps;
  const bridge = new AppBridge(null, { name: "test", version: "1" }, hostCapabilities, { hostContext });
  bridge.oncalltool = callTool;
  bridge.onmessage = message;
  bridge.onupdatemodelcontext = updateContext;
  bridge.onopenlink = openLink;
  bridge.onsizechange = resized;
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: toolArguments });
    await bridge.sendToolResult(toolResult);
  };
  addEventListener("message", ({ source, data }) => source === frame.contentWindow && data.method && posted.push(data));
  window.changeContext = (params) => bridge.setHostContext({ ...hostContext, ...params });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = card;
"""
PAGE = """<!doctype html>
<html lang="en"><head><title>A chat</title><script>%(bundle)s</script>
<style>body { margin: 0; background: %(ground)s; } iframe { display: block; width: 100%%; height: 300px; border: 0; }</style></head>
<body><main><h1>Chat</h1><iframe title="Question" sandbox="allow-scripts allow-same-origin"></iframe></main>
<script type="module">
  const frame = document.querySelector("iframe");
  const { card, hostContext, hostCapabilities, toolArguments, toolResult } = %(config)s;
  const posted = (window.posted = []);
  const said = (window.said = []);
  const callTool = async (params) => JSON.parse(await pythonCall(JSON.stringify(params)));
  const message = async ({ content }) => {
    if (hostCapabilities.message === undefined) throw new Error("no messages");
    said.push(content[0].text);
    return {};
  };
  const contexts = (window.contexts = []);
  const updateContext = async ({ content }) => (contexts.push(content[0].text), {});
  const links = (window.links = []);
  const openLink = async ({ url }) => (links.push(url), {});
  const resized = ({ height }) => (frame.style.height = `${height}px`);
%(host)s
</script></body></html>"""


@dataclass
class CardHost:
    """A window in which a card is shown."""

    page: Page
    table: Table
    card: Locator
    errors: list[str] = field(default_factory=list)

    async def said(self) -> list[str]:
        """What the card wrote into the chat."""
        found: list[str] = await self.page.evaluate("said")
        return found

    async def posted(self) -> list[dict[str, Any]]:
        """Everything that the card has sent to its host."""
        found: list[dict[str, Any]] = await self.page.evaluate("posted")
        return found


def bundle() -> str:
    """The real bridge, for a browser. `.ci/run nightly` installs it."""
    entry = EXT_APPS / "bridge.js"
    entry.write_text(
        'export { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";\n'
    )
    esbuild = EXT_APPS / "node_modules/.bin/esbuild"
    command = [str(esbuild), str(entry), "--bundle", "--format=iife", "--global-name=ExtApps"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@asynccontextmanager
async def shown(
    browser: Browser,
    table: Table,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    host: str = "small",
    theme: str = "light",
    width: int = 800,
    height: int = 900,
    context: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    change: Any = lambda result: result,
    openai: Any = None,
) -> AsyncIterator[CardHost]:
    """Call a tool as a model does, and show the card that the client is given for it.

    `openai` makes of the result what ChatGPT has for the card as `window.openai`.
    """
    given = (await table.client.call_tool(tool, dict(arguments))).model_dump(mode="json", by_alias=True)
    result = change(given)
    [resource] = (await table.client.read_resource(URI)).contents
    assert isinstance(resource, types.TextResourceContents)
    config = {
        "card": f"{SANDBOX}/card",
        "hostContext": {"theme": theme, "locale": "en-GB", **(context or {})},
        "hostCapabilities": {
            "serverTools": {},
            "openLinks": {},
            "message": {"text": {}},
            "updateModelContext": {"text": {}},
        }
        if capabilities is None
        else capabilities,
        "toolArguments": dict(arguments),
        "toolResult": result,
    }
    page = PAGE % {
        "bundle": bundle() if host == "bridge" else "",
        "ground": "#fff" if theme == "light" else "#1c1e24",
        "config": json.dumps(config).replace("<", "\\u003c"),
        "host": BRIDGE if host == "bridge" else SMALL,
    }
    policy = (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'none'; "
        "img-src 'self' data:; font-src 'self'; frame-src 'none'; object-src 'none'; base-uri 'self'"
    )

    async def serve(route: Route) -> None:
        match route.request.url:
            case url if url == f"{HOST}/":
                await route.fulfill(body=page, content_type="text/html")
            case url if url == f"{SANDBOX}/card":
                await route.fulfill(
                    body=resource.text, content_type="text/html", headers={"content-security-policy": policy}
                )
            case url:
                unexpected.append(f"request to {url}")
                await route.abort()

    async def call(text: str) -> str:
        asked = json.loads(text)
        answered = await table.client.call_tool(asked["name"], asked.get("arguments"))
        return json.dumps(answered.model_dump(mode="json", by_alias=True))

    unexpected: list[str] = []
    window = await browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    try:
        await window.route("**/*", serve)
        tab = await window.new_page()
        tab.on("pageerror", lambda error: unexpected.append(str(error)))
        tab.on(
            "console", lambda message: unexpected.append(message.text) if message.type == "error" else None
        )
        await tab.expose_function("pythonCall", call)
        if openai is not None:
            await tab.add_init_script(f"window.openai = {json.dumps(openai(given))};")
        await tab.goto(f"{HOST}/")
        yield CardHost(tab, table, tab.frame_locator("iframe").locator("main"), unexpected)
    finally:
        await window.close()
