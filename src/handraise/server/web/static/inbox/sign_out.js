// Signing out removes what this browser kept for a person.

import { say } from "./announcements.js";
import { DRAFTS } from "./drafts.js";
import { store } from "./local_storage.js";
import { stopNotifications } from "./notifications.js";
import { forgetKept, hasKept, sendKept } from "./offline_answers.js";
import { text } from "./texts.js";

const PATIENCE = 2_000;

export function startSignOut() {
  for (const form of document.querySelectorAll('form[action="/sign-out"]')) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await Promise.race([sendKept(), new Promise((done) => { setTimeout(done, PATIENCE); })]);
      if (hasKept() && !navigator.onLine) {
        say(text("You cannot sign out while you are offline: your answers would be lost."));
        return;
      }
      forgetKept();
      store.forget(DRAFTS);
      // Before the session ends: afterwards nobody knows whose notifications to end.
      await Promise.race([stopNotifications().catch(() => null), new Promise((done) => { setTimeout(done, PATIENCE); })]);
      form.submit();
    });
  }
}
