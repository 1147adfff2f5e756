// The sentences of scripts, in the language of the page. `python -m scripts.catalog` makes texts_LANGUAGE.js.

export const language = document.documentElement.lang || "en";

const translations = language === "en" ? {} : (await import(`./texts_${language}.js`)).default;

// Write every sentence in the call itself, so that the catalogue finds it: text("Not {what}", { what: "sent" }).
export function text(sentence, values = {}) {
  return filled(translations[sentence] ?? sentence, values);
}

// A sentence about so many things: counted(3, "{count} day", "{count} days").
export function counted(count, singular, plural, values = {}) {
  const [one, many] = translations[singular] ?? [singular, plural];
  return filled(count === 1 ? one : many, { count, ...values });
}

function filled(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}
