/** Reads server-sent events. */

export interface StreamMessage {
  readonly event: string;
  /** Empty in a heartbeat. */
  readonly data: string;
  readonly id: string;
}

/** The messages of a stream, also those that have an id and no data: those are heartbeats. */
export async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamMessage, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let lines: string[] = [];
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
        } else if (lines.length > 0) {
          yield messageOf(lines);
          lines = [];
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function messageOf(lines: readonly string[]): StreamMessage {
  const fields = { event: "message", data: [] as string[], id: "" };
  for (const line of lines) {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "data") fields.data.push(value);
    else if (name === "event" || name === "id") fields[name] = value;
  }
  return { ...fields, data: fields.data.join("\n") };
}
