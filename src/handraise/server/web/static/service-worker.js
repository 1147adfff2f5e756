// Works while no page is open: shows push messages, and a helpful page if there is no network.
// It keeps only files that are the same for everybody, never a person's page.

const CACHE = "handraise-1";
const OFFLINE = "/static/offline.html";
const FILES = [OFFLINE, "/static/style.css", "/static/mark.svg"];
const LONGEST = 200;
const PATIENCE = 10_000;
const MOST_BUTTONS = 2; // more are not shown
const ICON = "/static/icon-192.png";
const TITLES = { en: "A question waits for you", de: "Eine Frage wartet auf Sie" };

// Requests that change something bypass this worker: they stay as the browser made them, with the true origin. Also,
// Chromium loses a request of a page that is being left if a worker sees it first. A browser that cannot be told to
// bypass the worker shows its own page if there is no network.
const CHANGING = ["POST", "PUT", "PATCH", "DELETE"];
const canPass = "addRoutes" in (self.InstallEvent?.prototype ?? {});
const PAST_HERE = [...CHANGING.map((requestMethod) => ({ requestMethod })), { urlPattern: "/v1/*" }].map((condition) => ({ condition, source: "network" }));

self.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    if (canPass) await event.addRoutes(PAST_HERE);
    const cache = await caches.open(CACHE);
    await cache.addAll(FILES.map((path) => new Request(path, { cache: "reload" })));
    await self.skipWaiting();
  })());
});

self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
    // No page waits for a worker that sleeps.
    await self.registration.navigationPreload?.enable();
    await self.clients.claim();
  })());
});

if (canPass) self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (CHANGING.includes(request.method)) return;
  const path = new URL(request.url).pathname;
  if (request.mode === "navigate" && request.destination === "document") event.respondWith(page(event).catch(() => kept(OFFLINE)));
  else if (FILES.includes(path)) event.respondWith(fetch(request).catch(() => kept(path)));
});

async function page(event) {
  return (await event.preloadResponse) ?? (await fetch(event.request));
}

async function kept(path) {
  return (await (await caches.open(CACHE)).match(path)) ?? Response.error();
}

self.addEventListener("push", (event) => {
  event.waitUntil(self.registration.showNotification(...notification(event.data)));
});

function notification(data) {
  let said = {};
  try { said = data?.json() ?? {}; } catch { /* not our message; the browser still expects a notification */ }
  const text = (value, otherwise) => (typeof value === "string" && value.trim() ? value.slice(0, LONGEST) : otherwise);
  const url = addressOf(said?.url);
  const answers = Array.isArray(said?.answers?.buttons) ? said.answers : null;
  const actions = (answers?.buttons ?? []).slice(0, MOST_BUTTONS).map(({ label }, place) => ({ action: String(place), title: text(label, "?") }));
  return [
    text(said?.title, TITLES[navigator.language.slice(0, 2)] ?? TITLES.en),
    { body: text(said?.body, ""), tag: text(said?.tag, url), icon: ICON, actions, data: { url, answers } },
  ];
}

// Only a page of this server is ever opened.
function addressOf(url) {
  try {
    const found = new URL(url, self.location.origin);
    if (typeof url === "string" && found.origin === self.location.origin) return found.href;
  } catch { /* no address at all */ }
  return `${self.location.origin}/`;
}

// Only a button answers. A press on the notification itself opens the page.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { data } = event.notification;
  event.waitUntil(data?.answers?.buttons[event.action] ? answer(event.notification, event.action) : open(addressOf(data?.url)));
});

// Send an answer with what the notification showed, and tell what the server recorded. It refuses what has changed since.
async function answer({ title, body, tag, actions, data }, place) {
  const { account, fields, buttons, unsent, unrecorded, signed_out: signedOut } = data.answers;
  const { name, value } = buttons[place];
  const url = addressOf(data.url);
  const headers = { accept: "application/json", "handraise-account": encodeURIComponent(account) };
  const request = { method: "POST", headers, body: new URLSearchParams({ ...fields, [name]: value }), redirect: "manual", signal: AbortSignal.timeout(PATIENCE) };
  const got = await fetch(url, request).catch(() => null);
  const tell = (words, more) => self.registration.showNotification(words, { body: more, tag: `${tag} answer`, icon: ICON, silent: true, data: { url } });
  if (!got || got.status >= 500 || got.status === 408 || got.status === 429) {
    await self.registration.showNotification(title, { body: body.startsWith(unsent) ? body : `${unsent} ${body}`, tag, icon: ICON, silent: true, actions, data });
  } else if (got.type === "opaqueredirect" || got.status === 401) {
    await open(url).catch(() => tell(signedOut, title));
  } else {
    const said = await got.json().catch(() => ({}));
    const { done, refused } = said;
    if (got.ok && "done" in said && !done) await tell(title, body);
    else if (got.ok && done) await tell(done.answer ? `${done.text}: ${done.answer}` : done.text, done.question);
    else await tell(unrecorded, [refused?.text, refused?.recorded].filter(Boolean).join(" "));
  }
}

async function open(address) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = windows.find((each) => each.url === address);
  // Never navigate a page in which somebody may be writing.
  await (there ? there.focus() : self.clients.openWindow(address));
}

// The browser has changed the address for push messages: the server has to know the new one.
self.addEventListener("pushsubscriptionchange", (event) => {
  event.waitUntil((async () => {
    const options = event.oldSubscription?.options;
    const made = event.newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)));
    for (const [method, each] of [["DELETE", event.oldSubscription], ["POST", made]]) {
      if (!each) continue;
      const { endpoint, keys } = each.toJSON();
      const headers = { "content-type": "application/json" };
      await fetch("/v1/push/subscriptions", { method, headers, body: JSON.stringify({ endpoint, keys }) }).catch(() => null);
    }
  })());
});
