/** A program that is killed and run again: it asks, or with "approval" wants to run something. It closes nothing. */
import { openDesk } from "../build/src/index.js";

const [what = "", key = ""] = process.argv.slice(2);
const desk = await openDesk({
  fetch: async (url, request) => {
    const response = await fetch(url, request);
    if (String(url).endsWith("/v1/questions")) process.stdout.write("waiting\n"); // it is posted
    return response;
  },
});
if (what === "approval") {
  const action = await desk.requestApproval({ tool: "restart", arguments: { host: key } }, { key, prompt: key });
  process.stdout.write(`running ${action.tool} ${action.arguments.host}\n`);
} else {
  process.stdout.write(`answered ${await desk.ask(key, { key, choices: ["Canary", "Rolling"] })}\n`);
}
