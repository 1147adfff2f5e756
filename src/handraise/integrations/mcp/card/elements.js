// Elements of the card. Everything that anybody wrote becomes a text node, never markup.

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "open") element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false && each !== ""));
  return element;
}

function button(kind, id, text, onclick, disabled = false) {
  return el("button", { type: "button", class: kind, id, onclick, disabled }, text);
}

function rowsOf(entries) {
  return el("dl", { class: "rows" }, entries.map(({ name, text }) => [el("dt", {}, name), el("dd", {}, text)]));
}

function headingOf({ heading: [before, agent, after], action }) {
  return el(
    "div",
    { class: "heading" },
    el("h1", { id: "title", tabindex: "-1" }, before, el("span", { class: "agent" }, agent), after),
    action && el("span", { class: `badge ${action.risk.level}` }, action.risk.name),
  );
}

function actionOf({ action, texts }) {
  if (!action) return null;
  return el(
    "section",
    { class: "box action", "aria-label": texts.executed },
    el("h2", {}, texts.executed),
    el("p", { class: "tool" }, action.tool),
    action.arguments.length > 0 && rowsOf(action.arguments),
  );
}

function briefOf({ brief, texts }, openLink) {
  if (!brief) return null;
  const rows = brief.rows.map(({ name, words }) => [
    el("dt", {}, name),
    el("dd", {}, words.length === 1 ? words[0] : el("ul", {}, words.map((word) => el("li", {}, word)))),
  ]);
  const links = brief.links.map(({ label, host: site, url }) =>
    el("li", {}, label, " ", el("span", { class: "host" }, site), " ", openLink ? button("link", null, url, () => openLink(url)) : url),
  );
  if (links.length > 0) rows.push([el("dt", {}, texts.links), el("dd", {}, el("ul", {}, links))]);
  return el("section", { class: "box" }, el("h2", {}, brief.title), el("dl", { class: "rows" }, rows));
}

function threadOf({ thread, waits, texts }) {
  if (thread.length === 0) return null;
  const messages = thread.map(({ heading, text, is_agent: isAgent }) =>
    el("li", { class: isAgent ? "agent-said" : "person" }, el("p", { class: "quiet" }, heading), el("p", { class: "text" }, text)),
  );
  return el(
    "section",
    { "aria-label": texts.conversation },
    el("h2", {}, texts.conversation),
    el("ul", { class: "messages" }, messages),
    waits && el("p", { class: "quiet" }, waits),
  );
}

function outcomeOf({ outcome }) {
  if (!outcome) return null;
  const plain = outcome.details.filter(({ name }) => !name).map(({ text }) => el("p", { class: "text" }, text));
  const named = outcome.details.filter(({ name }) => name);
  return el(
    "section",
    { class: `outcome ${outcome.tone}`, id: "outcome", tabindex: "-1" },
    el("strong", {}, outcome.text),
    plain,
    named.length > 0 && rowsOf(named),
  );
}

// One thing to fill in. `entered` is changed as the person fills it in, and `onchange` called.
function controlOf(part, entered, problems, texts, onchange) {
  const about = [];
  const notes = [];
  const note = (suffix, kind, text) => {
    if (!text) return;
    about.push(`${part.name}-${suffix}`);
    notes.push(el("p", { class: kind, id: `${part.name}-${suffix}` }, text));
  };
  note("about", "quiet text", part.description);
  note("hint", "quiet", part.hint);
  note("problem", "problem", problems.join(" "));
  const shared = { "aria-describedby": about.join(" ") || null, "aria-invalid": problems.length > 0 ? "true" : null };
  const label = [part.label, part.optional && el("span", { class: "quiet" }, ` ${texts.optional}`)];
  const was = part.is_argument && el("p", { class: "quiet text", id: `${part.name}-was`, hidden: "" });
  const isPicked = part.kind === "one" || part.kind === "several";
  if (isPicked) {
    return el(
      "fieldset",
      { class: "control", ...shared },
      el("legend", { class: part.is_titled ? null : "unseen" }, label),
      notes,
      el(
        "div",
        { class: "ticks" },
        part.options.map((option, place) => tickOf(part, entered, option, place, onchange)),
        part.none !== null && tickOf(part, entered, { label: part.none }, NONE, onchange),
      ),
      part.other !== null && [
        el("label", { class: "quiet", for: `${part.name}-other` }, part.other),
        lineOf(`${part.name}-other`, entered, "other", {}, onchange),
      ],
      was,
    );
  }
  const tag = part.kind === "lines" ? "textarea" : "input";
  const keyboard = part.number ? { inputmode: "decimal" } : {};
  return el(
    "div",
    { class: "control" },
    el("label", { for: part.name, class: part.is_titled ? null : "unseen" }, label),
    notes,
    lineOf(part.name, entered, "text", { ...shared, ...keyboard }, onchange, tag),
    was,
  );
}

// The place of the tick that picks no option.
const NONE = -1;

function tickOf(part, entered, option, place, onchange) {
  const isOne = part.kind === "one";
  return el(
    "label",
    { class: "tick" },
    el("input", {
      type: isOne ? "radio" : "checkbox",
      name: part.name,
      id: `${part.name}-${place}`,
      checked: place === NONE ? entered.picked.length === 0 : entered.picked.includes(place),
      onchange: ({ target }) => {
        const others = isOne ? [] : entered.picked.filter((each) => each !== place);
        entered.picked = target.checked && place !== NONE ? [...others, place] : others;
        onchange();
      },
    }),
    el(
      "span",
      {},
      el("span", {}, option.label),
      option.description && el("span", { class: "quiet text" }, option.description),
      option.recommended && el("span", { class: "recommended" }, option.recommended),
    ),
  );
}

function lineOf(id, entered, name, attributes, onchange, tag = "input") {
  return el(tag, {
    class: "line",
    id,
    autocomplete: "off",
    ...(tag === "input" ? { type: "text" } : { rows: 3 }),
    ...attributes,
    value: entered[name],
    oninput: ({ target }) => {
      entered[name] = target.value;
      onchange();
    },
  });
}
