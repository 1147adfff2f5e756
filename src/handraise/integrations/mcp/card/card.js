// The card: shows the question, sends what the person does, signed with the card's key, and tells the agent.

const TOOL = { answer: "card_answer", ask_back: "card_ask_back", send_back: "card_send_back", decline: "card_decline" };
const SOONEST = 2_000;
const LATEST = 20_000;
const ENGLISH = {
  noKey: "This client does not pass on what the card needs. The question can be answered in the inbox.",
  old: "This card cannot be used any more: the server was restarted. Answer in the inbox, or let the agent ask again.",
  cancelled: "The call was cancelled. If the question was asked, it is in the inbox.",
  failed: "The question cannot be shown here. It is in the inbox.",
};
const main = document.getElementById("card");
const live = document.getElementById("live");

let signingKey = null;
let questionId = null;
let locale = "";
let canOpenLinks = false;
let view = null;
let problems = [];
let draft = { parts: {}, reason: "", panel: null, text: "", edits: false };
let isSending = false;
let note = null;
let wasPending = false;
let wasTold = false;
let timer = 0;
let delay = SOONEST;

function say(text, kind = "quiet") {
  main.replaceChildren(el("p", { class: kind, role: "status" }, text));
  main.removeAttribute("aria-busy");
}

// The key of this card, from the result of the call that asked. ChatGPT has it in a place of its own.
async function useKey(meta) {
  const given = meta?.["handraise/card"] ?? window.openai?.toolResponseMetadata?.["handraise/card"];
  if (signingKey || !given?.key || !given.question_id || !crypto.subtle) return Boolean(signingKey);
  const bytes = Uint8Array.from(given.key.match(/../g), (pair) => parseInt(pair, 16));
  questionId = given.question_id;
  signingKey = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return true;
}

async function callCard(tool, asked) {
  const text = JSON.stringify({ ...asked, locale });
  const bytes = new TextEncoder().encode(`${tool}\n${text}`);
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", signingKey, bytes));
  const signature = Array.from(mac, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const result = await request("tools/call", {
    name: tool,
    arguments: { question_id: questionId, request: text, signature },
  });
  const found = result.structuredContent;
  if (result.isError || !found?.texts) throw Object.assign(new Error("refused"), { code: found?.code });
  return found;
}

function entriesOf(part) {
  draft.parts[part.name] ??= { ...part.initial, picked: [...part.initial.picked] };
  return draft.parts[part.name];
}

function isChanged(part) {
  const { picked, text, other } = entriesOf(part);
  const first = part.initial;
  return text !== first.text || other !== first.other || [...picked].sort().join() !== [...first.picked].sort().join();
}

// What changes while the person writes: what an argument was before, and what the button says.
function refresh() {
  for (const part of view.parts.filter((each) => each.is_argument)) {
    const was = document.getElementById(`${part.name}-was`);
    if (!was) continue;
    was.hidden = !isChanged(part);
    const before = part.options.length > 0 ? part.initial.picked.map((place) => part.options[place].label).join(", ") : part.initial.text;
    was.textContent = `${view.texts.was} ${before}`;
  }
  const approve = document.getElementById("approve");
  if (approve) approve.textContent = view.parts.some(isChanged) ? view.texts.approve_edited : view.texts.approve;
}

function render(focus = null) {
  const focused = focus ?? document.activeElement?.id;
  const selection = document.activeElement?.selectionStart;
  document.documentElement.lang = view.language;
  const { texts } = view;
  main.replaceChildren(
    ...[
      headingOf(view),
      view.prompt !== null && el("p", { class: "prompt" }, view.prompt),
      actionOf(view),
      view.action && !view.outcome && el("p", { class: "quiet" }, view.action.risk.text),
      view.context !== null && el("section", { class: "box" }, el("p", { class: "text" }, view.context)),
      briefOf(view, canOpenLinks ? openLink : null),
      view.previews.map(({ title, text }) => el("details", {}, el("summary", {}, title), el("p", { class: "box text" }, text))),
      threadOf(view),
      outcomeOf(view),
      view.voted && el("p", { class: "notice" }, view.voted),
      view.why_not && el("p", { class: "notice" }, view.why_not),
      view.url && (view.why_not || view.waits) && canOpenLinks && el("div", { class: "actions" }, button("button second", "open", texts.open, () => openLink(view.url))),
      controls(texts),
      note && el("p", { class: "quiet", role: "status" }, note),
      view.outcome && wasPending && !wasTold && !note && el("div", { class: "actions" }, button("button second", "tell", texts.tell, () => tell("answered"))),
    ]
      .flat(Infinity)
      .filter(Boolean),
  );
  main.removeAttribute("aria-busy");
  if (view.can_answer) refresh();
  const again = focused && document.getElementById(focused);
  if (again && again !== document.activeElement) {
    again.focus({ preventScroll: true });
    if (selection !== undefined && selection !== null && again.setSelectionRange) again.setSelectionRange(selection, selection);
  }
}

function controls(texts) {
  if (!view.can_answer && !view.can_ask_back) return [];
  const general = problems.filter(({ part }) => part === null).map(({ text }) => text);
  const found = [];
  if (view.can_answer && view.parts.length > 0) found.push(fields(texts));
  if (problems.length > 0) {
    found.push(el("p", { class: "notice bad", role: "alert", id: "problem", tabindex: "-1" }, general.join(" ") || texts.misfit));
  }
  if (draft.panel) return [...found, panel(texts)];
  if (view.can_answer && view.is_approval) {
    found.push(
      el(
        "div",
        { class: "control" },
        el("label", { for: "reason" }, texts.reason, el("span", { class: "quiet" }, ` ${texts.optional}`)),
        lineOf("reason", draft, "reason", {}, () => {}),
      ),
      el(
        "div",
        { class: "actions" },
        button("button", "approve", texts.approve, () => act("answer", { decision: "approve" }), isSending),
        button("button equal", "deny", texts.deny, () => act("answer", { decision: "deny" }), isSending),
      ),
    );
  } else if (view.can_answer) {
    found.push(el("div", { class: "actions" }, button("button", "send", isSending ? texts.working : texts.send, () => act("answer"), isSending)));
  }
  const more = [
    view.can_ask_back && "ask_back",
    view.can_answer && "send_back",
    view.can_answer && !view.is_approval && "decline",
  ].filter(Boolean);
  found.push(el("div", { class: "actions more" }, more.map((name) => button("link", name, texts[name], () => openPanel(name), isSending))));
  return found;
}

function fields(texts) {
  const all = view.parts.map((part) => {
    const own = problems.filter((each) => each.part === part.name).map(({ text }) => text);
    return controlOf(part, entriesOf(part), own, texts, refresh);
  });
  const group = el("div", { class: "fields" }, all);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input[type=text]") && !view.is_approval) act("answer");
  });
  if (!view.is_approval) return group;
  return el(
    "details",
    {
      open: draft.edits || view.parts.some(isChanged) || problems.some(({ part }) => part !== null),
      ontoggle: ({ target }) => {
        draft.edits = target.open;
      },
    },
    el("summary", { id: "edits" }, texts.edit),
    group,
  );
}

function panel(texts) {
  const name = draft.panel;
  const labels = { ask_back: texts.question, send_back: texts.change, decline: texts.reason };
  return el(
    "div",
    { class: "control", onkeydown: ({ key }) => key === "Escape" && closePanel() },
    el("label", { for: "panel" }, labels[name], name === "decline" && el("span", { class: "quiet" }, ` ${texts.optional}`)),
    lineOf("panel", draft, "text", {}, () => {}, "textarea"),
    name === "send_back" && el("p", { class: "quiet" }, texts.unchanged),
    el(
      "div",
      { class: "actions" },
      button("button", "panel-send", isSending ? texts.working : texts[name], () => act(name, { text: draft.text }), isSending),
      button("button second", "panel-cancel", texts.cancel, closePanel, isSending),
    ),
  );
}

function openPanel(name) {
  draft.panel = name;
  draft.text = "";
  problems = [];
  render("panel");
}

function closePanel() {
  const name = draft.panel;
  draft.panel = null;
  problems = [];
  render(name);
}

async function act(name, more = {}) {
  if (isSending) return;
  isSending = true;
  note = null;
  const asked = { seen: view.seen, ...more };
  if (name === "answer") Object.assign(asked, { parts: draft.parts, reason: draft.reason });
  render();
  try {
    const found = await callCard(TOOL[name], asked);
    const isDone = found.problems.length === 0;
    view = found;
    problems = found.problems;
    if (isDone) {
      draft = { parts: name === "ask_back" ? draft.parts : {}, reason: "", panel: null, text: "", edits: false };
      if (found.tell) await tell(name === "ask_back" ? "asked" : "answered");
      else note = found.texts.told;
    }
  } catch (error) {
    problems = [{ part: null, text: error.code === "permission_denied" ? ENGLISH.old : view.texts.failed }];
  }
  isSending = false;
  wasTold ||= Boolean(view.outcome) && problems.length === 0;
  const first = problems.find(({ part }) => part !== null)?.part;
  render(problems.length === 0 ? (view.outcome ? "outcome" : "title") : first && document.getElementById(first) ? first : "problem");
  delay = SOONEST;
  schedule();
}

// The agent gets the answer itself from the record: what it is told here is only that there is one.
async function tell(what) {
  const text =
    what === "asked"
      ? `I asked you something on the card of question ${questionId}. Call collect_answer with this question_id to read it, then reply_to_person.`
      : `The question ${questionId} on the card is decided. Call collect_answer with this question_id.`;
  const content = [{ type: "text", text }];
  wasTold = true;
  try {
    const result = await request("ui/message", { role: "user", content });
    if (result.isError) throw new Error("refused");
    note = view.texts.told;
  } catch {
    await request("ui/update-model-context", { content }).catch(() => null);
    note = view.texts.untold;
  }
  render();
}

function openLink(url) {
  request("ui/open-link", { url }).catch(() => null);
}

function schedule() {
  clearTimeout(timer);
  if (signingKey && !document.hidden && !view?.outcome) timer = setTimeout(poll, delay);
}

const lasting = ({ tell: _, problems: __, ...rest }) => JSON.stringify(rest);

async function poll() {
  try {
    const found = await callCard("card_state", {});
    if (!isSending && (!view || lasting(found) !== lasting(view))) {
      const isLater = view !== null;
      view = found;
      wasPending ||= !view.outcome;
      if (isLater) live.textContent = view.outcome?.text ?? view.thread.at(-1)?.heading ?? "";
      if (isLater && view.outcome) {
        // Nobody did this here, so nothing is said in the person's name: the model learns it at its next turn.
        const text = `The question ${questionId} on the card is decided. Call collect_answer with this question_id.`;
        request("ui/update-model-context", { content: [{ type: "text", text }] }).catch(() => null);
      }
      render();
      delay = SOONEST;
    } else {
      delay = Math.min(LATEST, delay * 1.3);
    }
  } catch (error) {
    if (!view) say(error.code === "permission_denied" ? ENGLISH.old : ENGLISH.failed, "notice bad");
    if (error.code === "permission_denied") return;
    delay = LATEST;
  }
  schedule();
}

async function begin(result) {
  if (await useKey(result?._meta)) {
    await poll();
  } else if (result?.isError) {
    const { reason, problems: found } = result.structuredContent ?? {};
    say(reason ?? found?.map(({ message }) => message).join(" ") ?? ENGLISH.failed, "notice bad");
  } else {
    addEventListener("openai:set_globals", () => !view && begin({}), { once: true });
    say(ENGLISH.noKey, "notice");
  }
}

handlers.set("ui/notifications/tool-result", (result) => void begin(result));
handlers.set("ui/notifications/tool-cancelled", () => void (view ?? say(ENGLISH.cancelled, "notice")));
handlers.set("ui/resource-teardown", () => {
  clearTimeout(timer);
  signingKey = null;
  return {};
});
document.addEventListener("visibilitychange", () => {
  delay = SOONEST;
  schedule();
});
const welcome = await connect();
locale = typeof welcome.hostContext?.locale === "string" ? welcome.hostContext.locale : "";
canOpenLinks = Boolean(welcome.hostCapabilities?.openLinks);
