/** The component in a real browser, with both supported versions of React, and a real server. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Question, openDesk } from "@handraise/client";
import { build } from "esbuild";
import { Server } from "../../typescript/build/server.js";

const PAGE = fileURLToPath(new URL("page.js", import.meta.url));
const VERSIONS = { 18: { react: "react-18", "react-dom": "react-dom-18" }, 19: {} };

for (const [version, alias] of Object.entries(VERSIONS)) {
  test(`React ${version}: a question is shown in the page, and the page learns how it ended`, async (t) => {
    const told: string[] = [];
    let html = "";
    const pages = createServer((request, response) => {
      if (request.url?.startsWith("/told?")) told.push(decodeURIComponent(request.url.slice(6)));
      response.writeHead(200, { "content-type": "text/html" }).end(request.url === "/" ? html : "");
    });
    pages.listen(0, "127.0.0.1");
    await once(pages, "listening");
    t.after(() => pages.close());
    const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;

    const server = await Server.started({ HANDRAISE_EMBED_ORIGINS: JSON.stringify([origin]) });
    t.after(() => server.stop());
    const desk = await openDesk({ url: server.url, key: server.key });
    t.after(() => desk.close());
    const { id } = await desk.post("Refund order A-17?", { form: { kind: "confirm" } });
    const { url: link } = await server.person<{ url: string }>(`/v1/questions/${id}/links`, {});

    const { outputFiles } = await build({ entryPoints: [PAGE], bundle: true, format: "esm", write: false, alias });
    const config = JSON.stringify({ server: new URL(link).origin, link });
    html = `<!doctype html><html lang="en"><body></body><script>const config = ${config};</script>
      <script type="module">${outputFiles[0]?.text.replaceAll("</script", "<\\/script")}</script></html>`;
    const folder = await mkdtemp(join(tmpdir(), "handraise-react-"));
    const words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--user-data-dir=${folder}`];
    const browser = spawn("chromium", [...words, "--remote-debugging-port=0", `${origin}/`], { stdio: "ignore" });
    t.after(async () => {
      browser.kill("SIGKILL");
      if (browser.exitCode === null && browser.signalCode === null) await once(browser, "exit");
      pages.closeAllConnections();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    });

    await server.answer((question: Question) => question.id === id, true);
    const end = Date.now() + 60_000;
    while (told.length === 0 && Date.now() < end) await new Promise((again) => setTimeout(again, 50));
    assert.deepEqual(told, ["answered,About order A-17,true"]);
  });
}
