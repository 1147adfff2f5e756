// Signing out removes what this browser kept for a person.

import { DRAFTS } from "./drafts.js";
import { store } from "./local_storage.js";
import { stopNotifications } from "./notifications.js";

const PATIENCE = 2_000;

export function startSignOut() {
  for (const form of document.querySelectorAll('form[action="/sign-out"]')) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      store.forget(DRAFTS);
      // Before the session ends: afterwards nobody knows whose notifications to end.
      await Promise.race([stopNotifications().catch(() => null), new Promise((done) => { setTimeout(done, PATIENCE); })]);
      form.submit();
    });
  }
}
