// Keyboard shortcuts of one key. They can be turned off in a browser, and never act while a person types.

import { store } from "./local_storage.js";
import { pressInSplit } from "./split.js";

const dialog = document.querySelector("[data-keys-dialog]");
const keysOff = document.querySelector("[data-keys-off]");
const keysAreOn = () => store.get("handraise.keys") !== "off";

function showKeys() {
  document.documentElement.classList.toggle("keys-on", keysAreOn());
}

function moveTo(step) {
  const links = [...document.querySelectorAll(".row-text a")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next].focus();
  links[next].closest(".row").scrollIntoView({ block: "nearest" });
}

// A button of the row that has the focus.
function rowButton(key) {
  return document.activeElement?.closest(".row")?.querySelector(`[data-key="${key}"]`) ?? null;
}

function choose(place) {
  const button = rowButton(String(place + 1));
  if (button) comeTo(button);
  const controls = document.querySelectorAll("[data-answer] .fields [data-control]");
  if (controls.length !== 1) return;
  const tick = controls[0].querySelectorAll(".tick input")[place];
  if (!tick) return;
  comeTo(tick);
  tick.checked = tick.type === "radio" || !tick.checked;
  tick.dispatchEvent(new Event("input", { bubbles: true }));
  tick.dispatchEvent(new Event("change", { bubbles: true }));
}

// Unfold hidden parts first.
function comeTo(control) {
  const fold = control?.closest("details");
  if (fold) fold.open = true;
  control?.focus();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialog.open || !keysAreOn()) return;
  if (event.target.closest("textarea, select, input:not([type=radio], [type=checkbox]), [inert]")) return;
  const key = event.key;
  if (pressInSplit(event)) {
    event.preventDefault();
    return;
  }
  if (key === "j") moveTo(1);
  else if (key === "k") moveTo(-1);
  else if (key === "?") dialog.showModal();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "u") document.querySelector("[data-back]")?.click();
  else if (key === "y") comeTo(rowButton("y") ?? document.querySelector("[data-yes]"));
  else if (key === "n") comeTo(rowButton("n") ?? document.querySelector("[data-no]"));
  else if (key === "b") comeTo(document.querySelector("[data-send-back] textarea"));
  else if (key === "x") document.activeElement?.closest(".row")?.querySelector(".row-tick input")?.click();
  else if (/^[1-9]$/.test(key)) choose(Number(key) - 1);
  else return;
  event.preventDefault();
}

export function startKeys() {
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  keysOff.checked = !keysAreOn();
  keysOff.addEventListener("change", () => {
    store.set("handraise.keys", keysOff.checked ? "off" : null);
    showKeys();
  });
  showKeys();
  addEventListener("keydown", press);
}
