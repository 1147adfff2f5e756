// The sentences of scripts, in the language of the page. `python -m scripts.catalog` makes texts_LANGUAGE.js.

const language = document.documentElement.lang || "en";
const translations = language === "en" ? {} : (await import(`./texts_${language}.js`)).default;

// Every sentence stands in the call, so that the catalogue finds it: text("{count} new", {count: 3}).
export function text(sentence, values = {}) {
  return (translations[sentence] ?? sentence).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

// "1 day", "3 days", as the language says it.
export function countOf(number, unit) {
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(number);
}
