// Makes the inbox live. Every page works without this file; nothing here decides anything.

import { startControls } from "./inbox/controls.js";
import { startKeys } from "./inbox/keys.js";
import { startSignOut } from "./inbox/sign_out.js";
import { startQuestion } from "./inbox/question.js";
import { startPasskeys } from "./inbox/passkeys.js";
import { startPlace } from "./inbox/place.js";
import { startQueue } from "./inbox/queue.js";
import { returnToSplit, startSplit } from "./inbox/split.js";
import { startOfflineAnswers } from "./inbox/offline_answers.js";
import { startInstalling, startSwitches, startWorker } from "./inbox/notifications.js";
import { startTimes } from "./inbox/times.js";
import { startUploads } from "./inbox/uploads.js";

const page = document.getElementById("main");

// A page that the browser kept may be older than what it shows.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

startKeys();
startSignOut();
startControls();
startUploads();
startPasskeys();
startTimes();
startPlace();
if ("question" in page.dataset && !returnToSplit()) startQuestion(page);
if ("queue" in page.dataset) {
  startSplit(page);
  startQueue(page);
}
if ("myself" in page.dataset) {
  startInstalling();
  startSwitches();
}
startOfflineAnswers();
startWorker();
