import { Desk } from "./desk.js";
import { type Span, secondsOf } from "./durations.js";
import { PermissionDenied, StoreUnavailable, Unauthenticated } from "./errors.js";
import { HttpTransport } from "./http_transport.js";
import type { Caller } from "./records.js";
import { timing } from "./timing.js";

export interface DeskOptions {
  /** The address of a server, or of several on one store, separated by commas. Else that in `HANDRAISE_URL`. */
  readonly url?: string;
  /** The key of an agent. Else that in `HANDRAISE_KEY`. */
  readonly key?: string;
  /** How often waits read the server while it is not known that its hints arrive. */
  readonly pollInterval?: Span;
  /** Where to say why something takes long. Else on the console. */
  readonly log?: (message: string) => void;
  /** Sends requests, in place of the global `fetch`. */
  readonly fetch?: typeof fetch;
}

/** Open a desk at a server. Its workspace and its asker are those of the key. */
export async function openDesk(options: DeskOptions = {}): Promise<Desk> {
  if (!globalThis.crypto) throw new TypeError("@handraise/client needs Node 20 or later.");
  const url = options.url ?? environment("HANDRAISE_URL");
  const key = options.key ?? environment("HANDRAISE_KEY");
  if (!url?.replace(/[,\s]+/g, "")) throw new TypeError("openDesk needs the address of a server: set HANDRAISE_URL, or url: …");
  if (!key) {
    throw new Unauthenticated("unauthenticated", "A desk needs the key of an agent: set HANDRAISE_KEY, or key: …");
  }
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new Unauthenticated("unauthenticated", "The key has a character that no key has.");
  }
  const addresses = url.split(",").flatMap((address) => address.trim() || []);
  addresses.forEach(check);
  const log = options.log ?? ((message: string) => console.warn(`handraise: ${message}`));
  const pollInterval = secondsOf(options.pollInterval ?? timing.pollInterval);
  const send = options.fetch;
  const transport = new HttpTransport(addresses, { key, log, fetch: (...request) => (send ?? fetch)(...request) });
  const me = (await transport.call("GET", "/v1/me", { opening: true })) as Partial<Caller> | undefined;
  if (typeof me?.workspace !== "string") {
    throw new StoreUnavailable(`What answers at ${url} is not a Handraise server. Check the address.`);
  }
  if (!me.agent) throw new PermissionDenied("permission_denied", "This is not the key of an agent, so it cannot ask.");
  return Desk.of(transport, { workspace: me.workspace, asker: me.agent }, { pollInterval, log });
}

/** Without showing the address: a password may be in it. */
function check(address: string): void {
  try {
    const { username, password } = new URL(address, "http://localhost");
    if (!username && !password) return;
  } catch {
    // it is not a URL
  }
  throw new TypeError("The address of a server must be a URL without a password.");
}

function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}
