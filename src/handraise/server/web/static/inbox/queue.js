// The list: changed rows are marked in place, and new rows wait behind a line until the person wants them.

import { listen } from "./event_stream.js";
import { inARow, live, say, sayNothing, SETTLED, whisper } from "./announcements.js";
import { person } from "./local_storage.js";
import { notify, closeNotification } from "./notifications.js";
import { isQuestionOpen, listHasChanged } from "./split.js";
import { counted, text } from "./texts.js";

const AT_ONCE = 200;
const LEAVES = ["set_aside", "handed_over"]; // the inbox of the person who did it
const COMES = ["asked", "brought_in", "handed_over", "put_back"]; // into somebody's inbox
const STAYS = ["[data-live]", "form.search", "[data-save-view]"];

export function startQueue(page) {
  const address = location.pathname + location.search; // a question that is open beside the list has another one
  const list = page.querySelector("[data-list]");
  const asked = new Set();
  const news = new Set();
  let rows = rowsIn(page);
  let number = Number(page.dataset.queue);
  let ended = 0;
  let looking = null;

  // Many things may happen at once while many people look: each page waits a little before it looks again.
  function lookSoon() {
    // A search reads many questions to find a few, so it is done again less often.
    const soon = "searched" in page.dataset ? 5_000 : 1_000;
    looking ??= setTimeout(look, soon * (1 + 2 * Math.random()));
  }

  async function look() {
    clearTimeout(looking);
    looking = null;
    notify([...news]);
    news.clear();
    const now = await fetched();
    if (!now) return;
    if (!isQuestionOpen()) document.title = now.title;
    showFacts(now);
    const there = rowsIn(now);
    await mark([...rows.keys()].filter((id) => !there.has(id)));
    const added = [...there.keys()].filter((id) => !rows.has(id));
    const later = comeLater(now, there);
    const hasMoved = [...there].some(([id, row]) => rows.has(id) && isAgentsTurn(row) !== isAgentsTurn(rows.get(id)));
    if (!added.length && later) offerLater(later, now);
    else if (!added.length && hasMoved) offer(added, true);
    else if (!added.length) sayNothing();
    else if (!rows.size) swap(now, added);
    else offer(added, now.querySelector("nav.pager") !== null);
  }

  async function fetched() {
    const answer = await fetch(address, { headers: { accept: "text/html" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  // The heading and the tab say the same.
  function showFacts(now) {
    const facts = now.querySelector("[data-facts]");
    if (facts) page.querySelector("[data-facts]")?.replaceChildren(...facts.cloneNode(true).childNodes);
  }

  // How many new questions are on a page behind this one. An administrator hears of all, also of those for others, so
  // the number that waits must have grown; beyond some hundred it is not counted, and shows a plus.
  function comeLater(now, there) {
    const elsewhere = [...asked].filter((id) => !rows.has(id) && !there.has(id)).length;
    if (now.querySelector('nav.pager a[rel="next"]') === null) return 0;
    if (now.title.includes("+)")) return elsewhere;
    return Math.max(0, Math.min(elsewhere, Number(now.getElementById("main").dataset.queue) - number + ended));
  }

  function offerLater(count, now) {
    const sentence = counted(count, "{count} new question, less urgent than these.", "{count} new questions, less urgent than these.");
    if (!live.textContent.startsWith(sentence)) say(sentence, text("Next page"), now.querySelector('nav.pager a[rel="next"]').getAttribute("href"));
  }

  // Rows that are not in the list any more: they were settled, or others came before them.
  async function mark(ids) {
    const unknown = ids.filter((id) => !rows.get(id).classList.contains("settled")).slice(0, AT_ONCE);
    if (!unknown.length) return;
    const query = new URLSearchParams(unknown.map((id) => ["id", id]));
    const answer = await fetch(`/v1/outcomes?${query}`).catch(() => null);
    if (!answer?.ok) return;
    for (const each of (await answer.json()).settled) settle(rows.get(each.id), each.status, each.outcome?.by);
  }

  function settle(row, kind, by) {
    row.classList.add("settled");
    row.querySelector("[data-state]").textContent = inARow(kind, by);
  }

  function offer(added, hasMore) {
    // If there are several pages, rows move up without being new.
    const count = hasMore ? added.filter((id) => asked.has(id)).length : added.length;
    const sentence = count === 0 ? text("The list has moved on.") : counted(count, "{count} new question.", "{count} new questions.");
    if (live.textContent.startsWith(sentence)) return;
    say(sentence, text("Show"), address).addEventListener("click", async (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const now = await fetched();
      if (now) swap(now, [...rowsIn(now).keys()].filter((id) => !rows.has(id)), event.detail === 0);
      else location.reload();
    });
  }

  // Replace the list with the current one. What the person reads stays where it is.
  function swap(now, added, byKeyboard = false) {
    const active = document.activeElement;
    const focused = active?.closest("[data-row]")?.dataset.row;
    const fromNotice = live.contains(active);
    const there = rowsIn(now);
    const scroller = list.scrollHeight > list.clientHeight && getComputedStyle(list).overflowY === "auto" ? list : document.scrollingElement;
    const anchor = scroller.scrollTop > 0 ? [...rows].find(([id, row]) => there.has(id) && row.getBoundingClientRect().top >= 0) : undefined;
    const top = anchor?.[1].getBoundingClientRect().top;
    sayNothing();
    replaceChildren(list, now.querySelector("[data-list]"));
    rows = rowsIn(page);
    number = Number(now.getElementById("main").dataset.queue);
    ended = 0;
    asked.clear();
    for (const id of added) {
      rows.get(id).classList.add("fresh");
      rows.get(id).querySelector("[data-state]").textContent = text("new");
    }
    if (anchor) scroller.scrollBy({ top: rows.get(anchor[0]).getBoundingClientRect().top - top, behavior: "instant" });
    const first = rows.get(added[0]) ?? [...rows.values()][0];
    if (rows.has(focused)) rows.get(focused).querySelector(".row-text a").focus({ preventScroll: true });
    else if (focused || fromNotice) first?.querySelector(".row-text a").focus({ preventScroll: !byKeyboard });
    else if (active?.isConnected && active !== document.body) active.focus({ preventScroll: true });
    page.dataset.queue = String(number);
    listHasChanged();
    if (!isQuestionOpen()) document.title = now.title;
    if (added.length) whisper(counted(added.length, "{count} new question is in the list.", "{count} new questions are in the list."));
  }

  // The next questions, when all that are shown here are done.
  page.addEventListener("list-is-done", async () => {
    const now = await fetched();
    if (now) swap(now, []);
  });

  listen({
    always: true,
    heard(kind, event) {
      page.dispatchEvent(new CustomEvent("question-event", { detail: { kind, event } }));
      const row = rows.get(event.question_id);
      if (row && SETTLED.includes(kind)) {
        settle(row, kind, event.by);
      } else if (row && LEAVES.includes(kind) && event.by === person) {
        settle(row, kind, event.by);
      } else if (row && !["asked", "set_aside", "put_back"].includes(kind)) {
        row.classList.add("changed");
        row.querySelector("[data-state]").textContent = inARow(kind, event.by);
        if (["taken", "released"].includes(kind)) row.querySelector("[data-taken]")?.remove();
      }
      if (COMES.includes(kind)) asked.add(event.question_id);
      if (["asked", "escalated", "reminded", "replied"].includes(kind)) news.add(event.question_id);
      if (["brought_in", "handed_over"].includes(kind) && event.by !== person && !row) news.add(event.question_id);
      if (SETTLED.includes(kind)) {
        asked.delete(event.question_id);
        ended += 1;
        closeNotification(event.question_id);
      }
      lookSoon();
    },
    look: lookSoon,
  });
}

// Whether a row is in the group that waits for its agent.
const isAgentsTurn = (row) => "agentsTurn" in row.dataset;

const rowsIn = (part) => new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));

// Everything is made anew, except what the person may be using.
function replaceChildren(old, fresh) {
  const kept = (child) => {
    const selector = STAYS.find((each) => child.matches(each));
    return selector && old.querySelector(`:scope > ${selector}`);
  };
  old.replaceChildren(...[...fresh.children].map((child) => kept(child) ?? child));
}
