// The second press of a double click was meant for what was there before, and not for the question that came up meanwhile.
//
// In the first second in which it is shown, a click at the place of the click before decides nothing. Of a question that came up by itself,
// neither does Enter. This is no module, so that it is there before anything can be pressed.
{
  const SOON = 1_000; // milliseconds
  const NEAR = 40; // pixels
  const PLACE = "handraise.press"; // where the last press was, also on the page before
  const DECIDES = "[data-answer], [data-confirm], [data-decline], [data-send-back], [data-agree], [data-quick-row], [data-together]";

  const root = document.documentElement;
  let last = null;
  let before = null;
  let timer = null;
  let arrivals = 0;
  let byItself = false;

  try { last = JSON.parse(sessionStorage.getItem(PLACE)); } catch { /* not allowed */ }

  function came(alone) {
    byItself = alone;
    root.dataset.justCame = "";
    clearTimeout(timer);
    const arrival = ++arrivals;
    whenShown(() => {
      if (arrival === arrivals) timer = setTimeout(() => { delete root.dataset.justCame; }, SOON);
    });
  }

  // A busy machine shows a page long after this has run.
  function whenShown(then) {
    const afterFrames = () => requestAnimationFrame(() => requestAnimationFrame(then));
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", afterFrames, { once: true });
    else afterFrames();
  }

  const isNear = () => before && last && Math.hypot(before.x - last.x, before.y - last.y) < NEAR;

  addEventListener("question-came-up", ({ detail }) => came(detail.byItself));

  addEventListener("pointerdown", ({ clientX: x, clientY: y }) => {
    before = last;
    last = { x, y };
    try { sessionStorage.setItem(PLACE, JSON.stringify(last)); } catch { /* not allowed */ }
  }, { capture: true });

  addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (!("justCame" in root.dataset) || !button?.form?.matches(DECIDES)) return;
    if (event.detail === 0 ? !byItself : !isNear()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { capture: true });

  // A key that is held down presses a button again and again.
  addEventListener("keydown", (event) => {
    if (event.repeat && event.key === "Enter" && event.target.closest?.("button")?.form?.matches(DECIDES)) event.preventDefault();
  }, { capture: true });

  // Who types an address, or comes from elsewhere, has pressed nothing here before.
  if (document.referrer) came(new URLSearchParams(location.search).has("done"));
}
