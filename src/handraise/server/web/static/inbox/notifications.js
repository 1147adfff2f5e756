// Notifications, if the person turns them on: while the list is open in a tab, or without a tab by web push.
// They say who asks and what for. Only the page shows the content of a question.

import { person, store } from "./local_storage.js";
import { text } from "./texts.js";

export const TOLD = "handraise.told.";

const KEY = `${TOLD}${person}`;
const PUSH = "/v1/push/subscriptions";

const MOST = 5; // notifications in a minute; one more stands for the rest
const MINUTE = 60_000;

const canNotify = () => "serviceWorker" in navigator && "Notification" in window;
const isOn = () => store.get(KEY) === "on";
let recent = [];

export function startWorker() {
  // Pages work without it; browsers have it over https, and on the machine itself.
  navigator.serviceWorker?.register("/service-worker.js").catch(() => null);
}

// Notify this person of the questions that wait for them, unless they look at the page.
export async function notify(ids) {
  const looksHere = document.visibilityState === "visible" && document.hasFocus();
  if (looksHere || !isOn() || !canNotify() || Notification.permission !== "granted") return;
  for (const id of ids.slice(0, MOST)) {
    const url = `/questions/${encodeURIComponent(id)}`;
    const heading = await headingOf(url);
    if (!heading) continue;
    recent = [...recent.filter((at) => Date.now() - at < MINUTE), Date.now()];
    if (recent.length <= MOST) await show(heading, text("It waits for you in your inbox."), id, url);
    else await show(text("More questions wait for you"), text("They are in your inbox."), "handraise", "/");
  }
}

// Who asks and what for, in the words of the question's page, if this person may answer it.
async function headingOf(url) {
  const answer = await fetch(url, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector("[data-answer]") && page.querySelector("h1").textContent.replace(/\s+/g, " ").trim();
}

async function show(title, body, tag, url) {
  const worker = await navigator.serviceWorker.ready;
  await worker.showNotification(title, { body, tag, icon: "/static/icon-192.png", data: { url } });
}

// A question that has ended needs no notification.
export async function closeNotification(id) {
  if (!isOn() || !canNotify()) return;
  const worker = await navigator.serviceWorker.getRegistration("/");
  for (const each of (await worker?.getNotifications({ tag: id })) ?? []) each.close();
}

// The switches on the account page

export async function startSwitches() {
  const place = document.querySelector("[data-told]");
  const open = document.querySelector("[data-told-open]");
  const push = document.querySelector("[data-told-push]");
  const note = document.querySelector("[data-told-note]");
  document.querySelector("[data-told-off]").hidden = true;
  place.hidden = false;
  if (!canNotify()) {
    open.disabled = true;
    note.textContent = isSecureContext
      ? text("This browser has no notifications.")
      : text("Browsers show notifications only of servers that are reached over https.");
    return;
  }

  const showState = () => {
    open.checked = isOn() && Notification.permission === "granted";
    if (Notification.permission === "denied") note.textContent = text("This browser was told not to show notifications of this server. Its site settings can change that.");
  };

  open.addEventListener("change", async () => {
    note.textContent = "";
    const on = open.checked && (await Notification.requestPermission()) === "granted";
    store.set(KEY, on ? "on" : null);
    showState();
    if (on) note.textContent = text("You will be told while the list is open in a tab.");
  });
  showState();
  await startPush(push, note);
}

async function startPush(push, note) {
  if (!("PushManager" in window)) return;
  const answer = await fetch("/v1/push/key").catch(() => null);
  if (!answer?.ok) return;
  const { key } = await answer.json();
  const worker = await navigator.serviceWorker.ready;
  const made = await worker.pushManager.getSubscription();
  push.checked = made !== null;
  if (made && isOfAnotherKey(made, key)) await renew(worker, made, key).catch(() => null);
  push.closest("[data-push]").hidden = false;

  push.addEventListener("change", async () => {
    push.disabled = true;
    note.textContent = "";
    try {
      if (push.checked) await subscribe(worker, key);
      else await unsubscribe(worker);
      note.textContent = push.checked ? text("You will be told also when no tab is open.") : "";
    } catch (error) {
      push.checked = !push.checked;
      note.textContent = error.name === "NotAllowedError"
        ? text("This browser was told not to show notifications of this server. Its site settings can change that.")
        : text("That did not work just now. Please try again in a while.");
    }
    push.disabled = false;
  });
}

// The server's key was replaced: the server can use the old key for this browser only for a while.
function isOfAnotherKey(made, key) {
  const bytes = made.options?.applicationServerKey;
  if (!bytes) return false;
  const found = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return found.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") !== key;
}

async function renew(worker, made, key) {
  await send("DELETE", made);
  await made.unsubscribe();
  await subscribe(worker, key);
}

async function subscribe(worker, key) {
  const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const answer = await send("POST", made).catch(() => null);
  if (answer?.ok) return;
  // Nobody would ever use it.
  await made.unsubscribe();
  throw new Error("the server does not have it");
}

async function unsubscribe(worker) {
  const made = await worker.pushManager.getSubscription();
  if (!made) return;
  await send("DELETE", made).catch(() => null);
  await made.unsubscribe();
}

function send(method, subscription) {
  const { endpoint, keys } = subscription.toJSON();
  const headers = { "content-type": "application/json" };
  return fetch(PUSH, { method, headers, body: JSON.stringify({ endpoint, keys }), keepalive: true });
}

// After signing out, this browser gets no more notifications.
export async function stopNotifications() {
  store.forget(TOLD);
  if (!canNotify()) return;
  const worker = await navigator.serviceWorker.getRegistration("/");
  if (!worker) return;
  for (const each of await worker.getNotifications()) each.close();
  if (worker.pushManager) await unsubscribe(worker);
}

// Installing the inbox as an app, if the browser offers it

export function startInstalling() {
  const place = document.querySelector("[data-install]");
  addEventListener("beforeinstallprompt", (offer) => {
    offer.preventDefault();
    place.hidden = false;
    place.querySelector("[data-install-button]").addEventListener("click", async () => {
      await offer.prompt();
      place.hidden = true;
    }, { once: true });
  });
}
