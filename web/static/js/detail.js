// What lies behind a trial: effective values, the other metrics, every pair.

import { h } from "./dom.js";
import { change, knob, known } from "./format.js";
import { t, word } from "./text.js";

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// Confirmation pairs are the ones that count; before there are any, the race's.
const counting = (pairs) => {
  const confirmed = pairs.filter(({ pair }) => pair.phase === "confirm");
  return confirmed.length ? confirmed : pairs;
};

function others(pairs, limit) {
  const gains = new Map();
  for (const { pair } of counting(pairs)) {
    for (const [name, gain] of Object.entries(pair.others ?? {})) {
      if (known(gain)) gains.set(name, [...(gains.get(name) ?? []), gain]);
    }
  }
  if (!gains.size) return h("p", { class: "empty" }, t("detail.no_others"));
  const rows = [...gains].sort(([a], [b]) => a.localeCompare(b)).map(([name, list]) => {
    const effect = Math.expm1(median(list));
    const bad = known(limit) && -effect > limit;
    return h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: `number${bad ? " bad" : ""}` }, change(effect)));
  });
  return h("table", {}, h("tbody", {}, rows));
}

function effective(trial) {
  if (!trial.effective) return h("p", { class: "unknown" }, t("detail.effective.unknown"));
  const off = Object.entries(trial.values).filter(([name, value]) => trial.effective[name] !== value);
  if (!off.length) return h("p", {}, t("detail.effective.same"));
  return h("ul", {}, off.map(([name, value]) => h("li", { class: "bad" }, t("detail.effective.differs", { name, asked: knob(value, name), got: knob(trial.effective[name] ?? null, name) }))));
}

function pairTable(pairs, toEffect) {
  if (!pairs.length) return h("p", { class: "empty" }, t("detail.no_pairs"));
  const rows = pairs.map(({ pair, effect }) =>
    h("tr", { "data-block": pair.block }, h("td", { class: "number" }, pair.block), h("td", {}, word("pair", pair.phase)), h("td", { class: "number" }, change(toEffect(pair.gain))), h("td", { class: "number" }, change(effect))),
  );
  const head = [["block", true], ["phase", false], ["gain", true], ["adjusted", true]].map(([name, number]) => h("th", { scope: "col", class: number ? "number" : "" }, t(`detail.${name}`)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("detail.pairs") }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

export function details(trial, pairs, campaign, toEffect) {
  const part = (title, ...content) => h("section", {}, h("h4", {}, title), content);
  return h(
    "tr",
    { class: "detail" },
    h(
      "td",
      { colspan: 5 },
      h(
        "div",
        { class: "parts" },
        part(t("detail.why"), h("p", {}, trial.reason ?? (trial.ended === null ? t("detail.no_reason") : t("detail.no_words"))), h("p", { class: "muted" }, t("detail.source", { source: word("source", trial.source) })), effective(trial)),
        part(t("detail.others"), others(pairs, campaign.settings?.max_regression), h("p", { class: "muted" }, t("detail.others.note"))),
        part(t("detail.pairs"), pairTable(pairs, toEffect)),
      ),
    ),
  );
}
