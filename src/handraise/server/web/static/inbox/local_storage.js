// What this browser keeps for a person. It may be full or forbidden, and then nothing is kept.

export const person = document.body.dataset.person;

export const store = {
  get(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  },
  set(key, text) {
    try { text === null ? localStorage.removeItem(key) : localStorage.setItem(key, text); } catch { /* no room, or not allowed */ }
  },
  forget(start) {
    try {
      for (const key of Object.keys(localStorage)) if (key.startsWith(start)) localStorage.removeItem(key);
    } catch { /* not allowed */ }
  },
};
