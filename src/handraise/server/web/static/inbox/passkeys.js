// Signs decisions with a passkey, and adds and removes passkeys. The server checks every signature.

import { say, sayNothing } from "./announcements.js";
import { bodyOf } from "./controls.js";
import { text } from "./texts.js";

const ANSWERS = "[data-answer], [data-confirm], [data-decline], [data-send-back], [data-agree]";
const SIGNATURES = ["passkey", "created", "confirmed"];

// What was signed in each form. The same again, such as after the time to undo, needs no second signature.
const signed = new WeakMap();

export function startPasskeys() {
  showPasskeys(document);
  // Capturing, so that this comes before everything else that sends a form.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const address = addressFor(form);
    if (!address) return;
    const content = unsignedBodyOf(form, event.submitter).toString();
    if (signed.get(form) === content) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    sign(form, event.submitter, address, content).catch(report);
  }, { capture: true });
}

// Say in a part of a page whether this browser can use passkeys.
export function showPasskeys(part) {
  const isPossible = "PublicKeyCredential" in window && "parseRequestOptionsFromJSON" in PublicKeyCredential;
  for (const each of part.querySelectorAll("[data-passkey-script]")) each.hidden = !isPossible;
  for (const each of part.querySelectorAll("[data-passkey-none]")) each.hidden = isPossible;
  for (const each of part.querySelectorAll("[data-passkey-button]")) each.disabled = !isPossible;
}

function addressFor(form) {
  if (form.matches("[data-passkey-form]")) return form.dataset.passkeyForm;
  return form.matches(ANSWERS) ? form.closest("[data-passkey]")?.dataset.passkey : undefined;
}

async function sign(form, submitter, address, content) {
  for (const name of SIGNATURES) form.querySelector(`input[name=${name}]`)?.remove();
  const response = await fetch(address, { method: "POST", body: unsignedBodyOf(form, submitter) });
  if (!response.ok || !response.headers.get("content-type")?.startsWith("application/json")) throw new Error(`${response.status}`);
  const { nonce, get, create } = await response.json();
  if (get) keep(form, form.dataset.confirmed ?? "passkey", nonce, await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(get) }));
  if (create) keep(form, "created", nonce, await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(create) }));
  signed.set(form, content);
  sayNothing();
  form.requestSubmit(submitter);
}

function keep(form, name, nonce, credential) {
  const input = document.createElement("input");
  input.type = "hidden";
  input.name = name;
  form.append(input);
  input.value = JSON.stringify({ nonce, credential: credential.toJSON() });
}

// What a form says, without its signatures.
function unsignedBodyOf(form, submitter) {
  const body = bodyOf(form, submitter);
  for (const name of SIGNATURES) body.delete(name);
  return body;
}

function report(error) {
  if (error.name === "InvalidStateError") say(text("Nothing was sent: this device has a passkey for you here already."));
  else if (error.name === "NotAllowedError") say(text("Nothing was sent: the passkey was not used. Try again when you are ready."));
  else say(text("Nothing was sent: the passkey could not be used. Reload the page and try again."));
}
