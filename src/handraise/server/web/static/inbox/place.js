// Scrolls back to the row that a person came from. If it is gone, to the row that came after it.

const KEY = "handraise.order";
const PREFIX = "#q-";

const rowOf = (id) => document.getElementById(`q-${id}`);

export function startPlace() {
  const rows = () => [...document.querySelectorAll("[data-row], [data-settled], [data-aside]")];
  if (!rows().length && !location.hash.startsWith(PREFIX)) return;
  addEventListener("pagehide", () => {
    try { sessionStorage.setItem(KEY, JSON.stringify(rows().map((row) => row.id.slice(2)))); } catch { /* no room, or not allowed */ }
  });
  if (!location.hash.startsWith(PREFIX)) return;
  const comeBack = () => setTimeout(comeBackTo, 0, decodeURIComponent(location.hash.slice(PREFIX.length)));
  // A browser that comes to a fragment takes the focus away once the page is there.
  if (document.readyState === "complete") comeBack();
  else addEventListener("load", comeBack, { once: true });
}

function comeBackTo(id) {
  let order = [];
  try { order = JSON.parse(sessionStorage.getItem(KEY)) ?? []; } catch { /* nothing was kept */ }
  const at = order.indexOf(id);
  const near = at < 0 ? [id] : [...order.slice(at), ...order.slice(0, at).reverse()];
  const row = near.map(rowOf).find(Boolean);
  if (!row) return;
  row.querySelector(".row-text a").focus({ preventScroll: true });
  row.scrollIntoView({ block: "center", behavior: "instant" });
}
