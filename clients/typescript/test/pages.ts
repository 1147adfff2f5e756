/** The programs on a page, and what the page says that they print. */
import { readFileSync } from "node:fs";

export interface PageProgram {
  readonly name: string;
  readonly text: string;
  readonly output: string;
}

/** Blocks of TypeScript whose first line is their name; the next block of text or console shows what they print. */
export function programsOf(page: URL): PageProgram[] {
  const blocks = [...readFileSync(page, "utf8").matchAll(/^```(\w+)[^\n]*\n(.*?)^```$/gms)];
  return blocks.flatMap(([, language, text = ""], place) => {
    const name = /^\/\/ (\w+\.ts)\n/.exec(text)?.[1];
    if (language !== "ts") return [];
    if (name === undefined) throw new Error(`${page.pathname} has a program without a name`);
    const [, kind, shown = ""] = blocks.slice(place + 1).find(([, other]) => other !== "ts") ?? [];
    const output = shown.split("\n").filter((line) => kind !== "console" || !line.startsWith("$ "));
    return [{ name, text, output: output.join("\n").trim() }];
  });
}
