// What this browser keeps for a person. It may be full or forbidden, and then nothing is kept.

export const person = document.body.dataset.person;
export const account = document.body.dataset.account; // with the workspace

export const store = {
  get(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  },
  set(key, text) {
    try { text === null ? localStorage.removeItem(key) : localStorage.setItem(key, text); } catch { /* no room, or not allowed */ }
  },
  keys(start) {
    try { return Object.keys(localStorage).filter((key) => key.startsWith(start)); } catch { return []; }
  },
  forget(start) {
    for (const key of store.keys(start)) store.set(key, null);
  },
};
