// The host that shows this card: JSON-RPC over postMessage, as in MCP Apps of 2026-01-26.

const host = window.parent;
const PATIENCE = 60_000;
const unanswered = new Map();
const handlers = new Map();
let lastId = 0;

// Any origin may read what is posted: the key of the card is never in it.
function post(message) {
  host.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function request(method, params) {
  const id = ++lastId;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      unanswered.delete(id);
      reject(new Error("no response"));
    }, PATIENCE);
    unanswered.set(id, { resolve, reject, timer });
    post({ id, method, params });
  });
}

function notify(method, params = {}) {
  post({ method, params });
}

function respond({ id, method, params }) {
  const handler = handlers.get(method);
  const result = handler?.(params ?? {});
  if (id === undefined) return;
  if (handler) post({ id, result: result ?? {} });
  else post({ id, error: { code: -32601, message: "Method not found" } });
}

addEventListener("message", ({ source, data }) => {
  if (source !== host || data?.jsonrpc !== "2.0") return;
  if (typeof data.method === "string") {
    respond(data);
    return;
  }
  const waiting = unanswered.get(data.id);
  if (!waiting) return;
  unanswered.delete(data.id);
  clearTimeout(waiting.timer);
  if (data.error) waiting.reject(new Error("the host refused"));
  else waiting.resolve(data.result ?? {});
});

// The theme of the host: its colour scheme, and its variables for colours, fonts and corners.
function applyContext(context) {
  const root = document.documentElement;
  if (context?.theme === "light" || context?.theme === "dark") root.style.colorScheme = context.theme;
  for (const [name, value] of Object.entries(context?.styles?.variables ?? {})) {
    if (/^--(color|font|border)-[a-z0-9-]+$/.test(name) && typeof value === "string") {
      root.style.setProperty(name, value);
    }
  }
  const inset = context?.safeAreaInsets;
  if (inset) {
    document.body.style.padding = ["top", "right", "bottom", "left"]
      .map((side) => `${Number(inset[side]) || 0}px`)
      .join(" ");
  }
}

let sentHeight = 0;

function reportSize() {
  const height = Math.ceil(document.getElementById("card").getBoundingClientRect().bottom + scrollY);
  if (height === sentHeight) return;
  sentHeight = height;
  notify("ui/notifications/size-changed", { width: Math.ceil(innerWidth), height });
}

async function connect() {
  handlers.set("ping", () => ({}));
  handlers.set("ui/notifications/host-context-changed", applyContext);
  const result = await request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: "handraise", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline"] },
  });
  applyContext(result.hostContext);
  notify("ui/notifications/initialized");
  let queued = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(queued);
    queued = requestAnimationFrame(reportSize);
  }).observe(document.getElementById("card"));
  return result;
}
