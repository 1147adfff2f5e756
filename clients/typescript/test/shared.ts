/** One server and one desk for all tests that need a server: to start a server costs more than most tests. */
import { after, before } from "node:test";
import { type Desk, type Question, openDesk } from "../build/src/index.js";
import { Server } from "./server.js";

export let server: Server;
export let desk: Desk;

before(async () => {
  server = await Server.started();
  desk = await openDesk({ url: server.url, key: server.key });
});
after(async () => {
  await desk.close();
  await server.stop();
});

export const asks = (prompt: string) => (question: Question) => question.prompt === prompt;

/** Wait for something that happens soon, however slow the machine is. */
export async function until(happened: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await happened())) {
    if (Date.now() > end) throw new Error(`${what} did not happen`);
    await new Promise((again) => setTimeout(again, 20));
  }
}
