// What of an agent's text is where it must not be on this page; an empty list where nothing is. `mark` is in each text.
(mark) => {
  const BOX = '[data-from="agent"]';
  const TAGS = new Set(
    `p br strong em s code pre ul ol li blockquote a hr table thead tbody tr th td section div span dl dt dd del ins h2 h3
     label input textarea select option fieldset legend details summary kbd time button title`.split(/\s+/),
  );
  const faults = [];
  const fault = (what, node) => faults.push(`${what}: ${(node.outerHTML ?? node.textContent).slice(0, 300)}`);
  const marked = (text) => text.toLowerCase().includes(mark);
  const element = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement);
  const boxOf = (node) => element(node).closest(BOX);

  const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_COMMENT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (!marked(node.textContent)) continue;
    if (node.nodeType === Node.COMMENT_NODE || !boxOf(node)) fault("outside the agent's box", element(node));
  }
  for (const each of document.querySelectorAll("*")) {
    const inside = boxOf(each);
    if (inside && !TAGS.has(each.localName)) fault("an element that is not ours", each);
    if (each.shadowRoot) fault("a shadow", each);
    for (const { name, value } of each.attributes) {
      if (name.startsWith("on") || name === "style" || name === "srcdoc") fault("an attribute that is not ours", each);
      // Read by nobody: what goes to the server and comes back, and where our own links lead.
      const unread = name === "value" || (name === "href" && value.startsWith("/"));
      if (marked(value) && !inside && !unread) fault(`outside the agent's box, in ${name}`, each);
    }
  }
  const named = document.querySelector("title");
  if (marked(document.title) && !named.matches(BOX)) faults.push(`in the title: ${document.title}`);
  if (mark in window) faults.push("a script has run");

  // The part of a rectangle that can be seen, given what clips it on the way up to `top`.
  const seen = (rect, node, top) => {
    let [left, right, above, below] = [rect.left, rect.right, rect.top, rect.bottom];
    for (let up = element(node); up && up !== top.parentElement; up = up.parentElement) {
      if (getComputedStyle(up).overflowX === "visible") continue;
      const clip = up.getBoundingClientRect();
      [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
      [above, below] = [Math.max(above, clip.top), Math.min(below, clip.bottom)];
    }
    return { left, right, above, below, empty: right - left < 1 || below - above < 1 };
  };
  for (const box of document.querySelectorAll(BOX)) {
    if (box.parentElement.closest(BOX)) continue;
    const frame = box.getBoundingClientRect();
    const inner = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    for (let node = inner.nextNode(); node; node = inner.nextNode()) {
      if (!node.textContent.trim() || element(node).closest(".unseen, option")) continue;
      // Word by word: spaces at the end of a line may hang out of the box, where nobody sees them.
      for (const { 0: word, index } of node.textContent.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        for (const rect of range.getClientRects()) {
          const part = seen(rect, node, box);
          if (part.empty) continue;
          const out = part.left < frame.left - 2 || part.right > frame.right + 2;
          // A line of text may be a little higher than the box of the words in it.
          const over = part.above < frame.top - 12 || part.below > frame.bottom + 12;
          if (out || over) fault(`painted outside its box: ${word.slice(0, 80)}`, element(node));
        }
      }
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`wider than the window: ${document.documentElement.scrollWidth}`);

  for (const ours of document.querySelectorAll("main button, main h1, main h2, header a, header button, nav a, .trail a")) {
    if (boxOf(ours) || !ours.checkVisibility()) continue;
    ours.scrollIntoView({ block: "center" });
    const { left, right, top, bottom } = ours.getBoundingClientRect();
    const points = [[(left + right) / 2, (top + bottom) / 2], [left + 3, top + 3], [right - 3, bottom - 3]];
    for (const [x, y] of points) {
      const hit = document.elementFromPoint(x, y);
      if (hit && boxOf(hit) && !ours.contains(hit)) fault("the agent's text lies over it", ours);
    }
  }
  return faults;
}
