/** The client in a real browser, in a page of the server's own origin. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Proxy } from "./proxy.js";
import { asks, server, until } from "./shared.js";

const skip = process.env["HANDRAISE_TIER"] === "nightly" ? false : "a browser is slow; nightly has one";

test("a program in a browser asks and continues", { skip }, async (t) => {
  const proxy = await Proxy.before(server.url);
  t.after(() => proxy.close());
  const script = `
    import { openDesk } from "/client.js";
    try {
      const desk = await openDesk({ url: location.origin, key: "${server.key}" });
      const approved = await desk.requestApproval({ tool: "close" }, { prompt: "In a browser?" });
      await fetch("/result?" + approved.tool);
    } catch (error) {
      await fetch("/result?" + error);
    }`;
  proxy.pages.set("/", ["text/html", `<!doctype html><script type="module">${script}</script>`]);
  proxy.pages.set("/client.js", ["text/javascript", await readFile(new URL("../dist/index.js", import.meta.url), "utf8")]);
  proxy.pages.set("/result", ["text/plain", ""]);
  const folder = await mkdtemp(join(tmpdir(), "handraise-browser-"));
  const words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--user-data-dir=${folder}`];
  const browser = spawn("chromium", [...words, "--remote-debugging-port=0", `${proxy.url}/`], { stdio: "ignore" });
  t.after(async () => {
    browser.kill("SIGKILL");
    if (browser.exitCode === null && browser.signalCode === null) await once(browser, "exit");
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const { id, form } = await server.pending(asks("In a browser?"));
  assert.ok(form.kind === "approval");
  await server.person(`/v1/questions/${id}/answer`, { value: { decision: "approve", digest: form.digest } });
  await until(() => proxy.count("/result") > 0, "the result");
  assert.ok(proxy.requests.includes("/result?close"), proxy.requests.at(-1) ?? "");
});
