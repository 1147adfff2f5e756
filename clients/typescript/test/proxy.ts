/** Something between a client and a server that loses what a test says. */
import { once } from "node:events";
import { type IncomingMessage, type Server, type ServerResponse, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/** What happens to a response: it passes, is cut before its first byte, or everything after its first bytes is kept. */
export type Fate = "pass" | "cut" | "hold" | number;

export class Proxy {
  readonly requests: string[] = [];
  /** What it serves itself, by path: a media type and a text. */
  readonly pages = new Map<string, readonly [string, string]>();
  /** Says what happens to a request. A number is a status that is given instead. */
  fate: (path: string, request: IncomingMessage) => Fate = () => "pass";
  /** While this is set, nothing passes on streams, and they stay open. */
  isSilent = false;
  readonly #server: Server;

  private constructor(target: string) {
    this.#server = createServer((incoming, outgoing) => this.#handle(target, incoming, outgoing));
  }

  static async before(target: string): Promise<Proxy> {
    const proxy = new Proxy(target);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  count(path: string): number {
    return this.requests.filter((each) => each.startsWith(path)).length;
  }

  cutAll(): void {
    this.#server.closeAllConnections();
  }

  close(): void {
    this.#server.close();
    this.cutAll();
  }

  #handle(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
    const path = incoming.url ?? "";
    this.requests.push(path);
    const page = this.pages.get(path.replace(/\?.*/, ""));
    if (page !== undefined) {
      outgoing.writeHead(200, { "content-type": page[0] }).end(page[1]);
      return;
    }
    const fate = this.fate(path, incoming);
    if (typeof fate === "number") {
      outgoing.writeHead(fate).end("no");
      return;
    }
    const { host: _, ...headers } = incoming.headers;
    const passed = request(target + path, { method: incoming.method, headers }, (response) => {
      if (fate === "cut") {
        response.resume().once("end", () => outgoing.destroy());
        return;
      }
      outgoing.writeHead(response.statusCode ?? 500, response.headers);
      let passedOn = 0;
      response.on("data", (chunk: Buffer) => {
        const isLost = this.isSilent && path.startsWith("/v1/events");
        if (isLost) return;
        // What is held is not late for a long time.
        if (fate === "pass") outgoing.write(chunk);
        else if (passedOn++ === 0) outgoing.write(String(chunk).replace(/"heartbeat": [\d.]+/, '"heartbeat": 60'));
      });
      response.on("end", () => outgoing.end());
      response.on("error", () => outgoing.destroy());
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    outgoing.on("error", () => passed.destroy());
    incoming.pipe(passed);
  }
}
