/** The server's own element, `<handraise-question>`, in which a person answers one question, as a component. */
import { type CSSProperties, type ReactElement, createElement, useEffect, useRef } from "react";

/** How a question ended, as the page learns it. */
export type SettledStatus = "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned";

export interface HandraiseQuestionProps {
  /** The address of the Handraise server. Its script runs in your page, so it must be yours and not from a user. */
  readonly server: string;
  /** The question link for the person who looks at the page. Anything that is not a link of that server shows nothing. */
  readonly link: string;
  /** For screen readers. */
  readonly title?: string;
  readonly className?: string;
  readonly style?: CSSProperties;
  /** Called once when the question is settled, there or elsewhere. */
  readonly onSettled?: (status: SettledStatus) => void;
}

const loading = new Map<string, HTMLScriptElement>();

export function HandraiseQuestion(props: HandraiseQuestionProps): ReactElement | null {
  const { server, link, title, className, style, onSettled } = props;
  const element = useRef<HTMLElement>(null);
  const called = useRef(onSettled);
  const origin = originOf(server);
  const isLink = origin !== undefined && originOf(link) === origin && /^\/q\/[\w-]+$/.test(new URL(link).pathname);
  useEffect(() => {
    called.current = onSettled;
  });
  useEffect(() => {
    if (isLink) load(server);
  }, [server, isLink]);
  useEffect(() => {
    const shown = element.current;
    const onEvent = (event: Event): void => called.current?.((event as CustomEvent<{ status: SettledStatus }>).detail.status);
    shown?.addEventListener("handraise-settled", onEvent);
    return () => shown?.removeEventListener("handraise-settled", onEvent);
  }, [isLink, link]);
  if (!isLink) return null;
  // `class`, because React 18 passes `className` of an element that it does not know on as it is.
  return createElement("handraise-question", { ref: element, key: link, src: link, title, class: className, style });
}

/** Load the script of the element, once for each server. */
function load(server: string): void {
  const src = new URL("/static/embed.js", server).href;
  if (customElements.get("handraise-question") || loading.get(src)?.isConnected) return;
  const script = document.createElement("script");
  script.type = "module";
  script.src = src;
  script.addEventListener("error", () => script.remove()); // so that it is tried again
  loading.set(src, script);
  document.head.append(script);
}

function originOf(address: string): string | undefined {
  try {
    const { origin, protocol } = new URL(address);
    return /^https?:$/.test(protocol) ? origin : undefined;
  } catch {
    return undefined;
  }
}
