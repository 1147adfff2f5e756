/** A real server in its own process, with an agent's key and a person's session. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Form, Question } from "../build/src/index.js";
import { ROOT } from "./cases.js";

const run = promisify(execFile);

export class Server {
  #process: ChildProcess | undefined;

  private constructor(
    readonly folder: string,
    readonly port: number,
    readonly key: string,
    readonly session: string,
    /** The keys of other agents. */
    readonly others: readonly string[],
    readonly settings: NodeJS.ProcessEnv,
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get environment(): NodeJS.ProcessEnv {
    return environmentIn(this.folder, this.port, this.settings);
  }

  /** A server with an agent "deployer" and a person "ana". */
  static async started(settings: NodeJS.ProcessEnv = {}): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), "handraise-"));
    const port = await freePort();
    const env = environmentIn(folder, port, settings);
    const made = await run("python", ["-m", "support.furnished_store", env["HANDRAISE_URL"] ?? ""], { env, cwd: ROOT });
    const { key, others, session } = JSON.parse(made.stdout) as { key: string; others: string[]; session: string };
    const server = new Server(folder, port, key, session, others, settings);
    await server.restart();
    return server;
  }

  /** As if the machine lost its power. */
  async kill(): Promise<void> {
    const process = this.#process;
    if (process === undefined || process.exitCode !== null || process.signalCode !== null) return;
    process.kill("SIGKILL");
    await once(process, "exit");
  }

  async restart(): Promise<void> {
    this.#process = await serving(this.port, this.environment);
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** A request of the person. */
  async person<Answer>(path: string, body?: object): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        authorization: `Bearer ${this.session}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${text}`);
    return JSON.parse(text) as Answer;
  }

  /** The first question that fits and waits for the person. */
  async pending(fits: (question: Question) => boolean = () => true): Promise<Question> {
    const end = Date.now() + 60_000;
    while (Date.now() < end) {
      const { items } = await this.person<{ items: Question[] }>("/v1/questions?limit=500");
      const found = items.find(fits);
      if (found !== undefined) return found;
      await new Promise((again) => setTimeout(again, 50));
    }
    throw new Error("no such question was asked");
  }

  async answer(fits: (question: Question) => boolean, value: unknown): Promise<Question> {
    const { id } = await this.pending(fits);
    return this.person<Question>(`/v1/questions/${id}/answer`, { value });
  }

  /** A person who agrees to everything, until the returned function is called. */
  agreeable(): () => Promise<void> {
    let goesOn = true;
    const answering = (async () => {
      while (goesOn) {
        const { items } = await this.person<{ items: Question[] }>("/v1/questions");
        for (const { id, form } of items) await this.person(`/v1/questions/${id}/answer`, { value: agreement(form) });
        await new Promise((again) => setTimeout(again, 50));
      }
    })();
    return () => {
      goesOn = false;
      return answering;
    };
  }
}

function agreement(form: Form): unknown {
  switch (form.kind) {
    case "confirm":
      return true;
    case "choice":
      return form.options[0]?.id;
    case "multi_choice":
      return form.options.map((each) => each.id);
    case "approval":
      return { decision: "approve", digest: form.digest };
    case "form":
      return Object.fromEntries(form.fields.map((field) => [field.name, agreement(field.form)]));
    case "open":
      return form.type === "integer" || form.type === "number" ? 12 : "Fine.";
    case "file":
      throw new Error("nobody has a file");
  }
}

function environmentIn(folder: string, port: number, settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const clean = Object.entries(process.env).filter(([name]) => !name.startsWith("HANDRAISE_"));
  return {
    ...Object.fromEntries(clean),
    HANDRAISE_URL: `sqlite:///${join(folder, "questions.db")}`,
    HANDRAISE_PORT: String(port),
    HANDRAISE_HEARTBEAT: "0.5",
    HANDRAISE_LOG_LEVEL: "warning",
    ...settings,
  };
}

async function serving(port: number, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const server = spawn("handraise", ["serve"], { env, stdio: ["ignore", "ignore", "inherit"] });
  process.once("exit", () => server.kill("SIGKILL")); // also if a test takes too long
  const end = Date.now() + 120_000;
  for (;;) {
    if (server.exitCode !== null || Date.now() > end) throw new Error("the server did not start");
    try {
      if ((await fetch(`http://127.0.0.1:${port}/readyz`)).ok) return server;
    } catch {
      // not yet
    }
    await new Promise((again) => setTimeout(again, 50));
  }
}

process.once("SIGTERM", () => process.exit(1));

/** A port below those of outgoing connections. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const listener = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      listener.once("error", () => resolve(false));
      listener.listen(port, "127.0.0.1", () => listener.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
