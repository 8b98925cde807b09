// Every word the scripts show comes from the page's text table, so that a translation has one place to go.

const TABLE = JSON.parse(document.getElementById("text").textContent);
const LANGUAGE = document.documentElement.lang || "en";
const plural = new Intl.PluralRules(LANGUAGE);

export function t(key, values = {}) {
  const text = TABLE[key];
  if (text === undefined) throw new Error(`no text for ${key}`);
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

// "1 block", "2 blocks": the table holds KEY.one and KEY.other.
export function count(key, n, shown = String(n)) {
  return t(`${key}.${plural.select(n)}`, { n: shown });
}

// A word the daemon chose (a state, a phase): translated where the table knows it, else as it came.
export function word(group, value) {
  if (value === null || value === undefined) return t("unknown");
  return TABLE[`${group}.${value}`] ?? String(value);
}
