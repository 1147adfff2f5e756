// <handraise-question src="https://…/q/…"></handraise-question>: a question of Handraise in a page of yours.
//
// It makes a frame as tall as its content, and an event `handraise-settled` once the question is settled. Your page
// learns these two things, and the frame learns nothing of your page but its origin.

const STATUSES = ["answered", "declined", "expired", "withdrawn", "exhausted", "returned"];
const TALLEST = 20_000;
const TITLES = { en: "A question to you", de: "Eine Frage an Sie" };
// Without `allow-same-origin` the frame's form would have no origin and be refused. What opens in a new tab is a
// page like any other.
const SANDBOX = "allow-forms allow-popups allow-popups-to-escape-sandbox allow-same-origin allow-scripts";
const SHEET = new CSSStyleSheet();
SHEET.replaceSync(":host { display: block } iframe { display: block; width: 100%; height: 20rem; border: 0 }");

class HandraiseQuestion extends HTMLElement {
  static observedAttributes = ["src", "title"];
  #frame = null;
  #origin = null;
  #settled = false;
  #hear = (event) => this.#heard(event);

  connectedCallback() {
    addEventListener("message", this.#hear);
    this.#show();
  }

  disconnectedCallback() {
    removeEventListener("message", this.#hear);
    this.#frame?.remove();
    this.#frame = null;
  }

  attributeChangedCallback(name) {
    if (!this.isConnected) return;
    if (name === "title" && this.#frame) this.#frame.title = this.#title;
    else this.#show();
  }

  get #title() {
    return this.getAttribute("title") || (TITLES[document.documentElement.lang.slice(0, 2)] ?? TITLES.en);
  }

  #show() {
    this.#frame?.remove();
    this.#frame = null;
    this.#settled = false;
    const address = addressOf(this.getAttribute("src"));
    if (!address) return;
    this.#origin = address.origin;
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", SANDBOX);
    frame.referrerPolicy = "no-referrer";
    frame.title = this.#title;
    frame.addEventListener("load", () => frame.contentWindow?.postMessage("handraise-hello", address.origin));
    frame.src = address.href;
    this.#frame = frame;
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = [SHEET];
    shadow.replaceChildren(frame);
  }

  #heard(event) {
    if (!this.#frame || event.source !== this.#frame.contentWindow || event.origin !== this.#origin) return;
    const { height, status } = event.data?.handraise ?? {};
    if (Number.isFinite(height)) this.#frame.style.height = `${Math.min(Math.max(height, 0), TALLEST)}px`;
    if (STATUSES.includes(status) && !this.#settled) {
      this.#settled = true;
      this.dispatchEvent(new CustomEvent("handraise-settled", { bubbles: true, detail: { status } }));
    }
  }
}

// The address of the frame for a link; null for anything else, so that nothing in `src` runs in your page.
function addressOf(src) {
  const address = src && URL.canParse(src) ? new URL(src) : null;
  if (!address || !/^https?:$/.test(address.protocol) || !/^\/q\/[\w-]+$/.test(address.pathname)) return null;
  return new URL(`${address.pathname}/frame`, address.origin);
}

customElements.define("handraise-question", HandraiseQuestion);
