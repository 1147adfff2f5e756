/** Reads server-sent events. */

export interface StreamMessage {
  readonly event: string;
  /** Empty in a heartbeat. */
  readonly data: string;
  readonly id: string;
}

/** How many characters a message may have; a server sends far smaller ones. */
const MOST_CHARACTERS = 4_000_000;

/** The messages of a stream, also those that have an id and no data: those are heartbeats. */
export async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamMessage, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let lines: string[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (text + decoder.decode(value, { stream: true })).split("\n");
      text = parts.pop() ?? "";
      for (const part of parts) {
        const line = part.replace(/\r$/, "");
        if (line !== "") {
          lines.push(line);
          size += line.length;
        } else {
          const message = messageOf(lines);
          lines = [];
          size = 0;
          if (message !== undefined) yield message;
        }
      }
      if (size + text.length > MOST_CHARACTERS) throw new Error("it is too large");
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Nothing if there are only comments: what keeps a connection open says nothing about the server. */
function messageOf(lines: readonly string[]): StreamMessage | undefined {
  let isMessage = false;
  const fields = { event: "message", data: [] as string[], id: "" };
  for (const line of lines) {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "data") fields.data.push(value);
    else if (name === "event" || name === "id") fields[name] = value;
    else continue;
    isMessage = true;
  }
  return isMessage ? { ...fields, data: fields.data.join("\n") } : undefined;
}
