// The knob catalogue as it applies to this engine.

import { $, h, morph } from "./dom.js";
import { knob, known } from "./format.js";
import { DATA, start } from "./frame.js";
import { t, word } from "./text.js";

const unknown = (text) => h("span", { class: "unknown" }, text);

function between(row) {
  if (row.choices?.length) return row.choices.join(", ");
  if (!known(row.low) && !known(row.high)) return unknown(t("unknown"));
  return t("knobs.between", { low: knob(row.low), high: knob(row.high) });
}

function now(row, effective) {
  const value = effective[row.name] ?? row.value;
  if (typeof value === "boolean") return t(value ? "switch.on" : "switch.off");
  if (typeof value === "string") return value;
  return known(value) ? knob(value) : unknown(t("unknown"));
}

function tried(row) {
  if (!row.search) return [];
  const may = word("search", row.search);
  return [h("p", { class: "muted" }, row.accuracy_gate ? t("knobs.gate", { word: may }) : may)];
}

function about(row) {
  const lines = [...(row.rules ?? []), ...(row.successors ?? [])];
  if (row.read_back?.length) lines.push(t("knobs.read", { ways: row.read_back.join(", ") }));
  return [row.help ?? "", ...lines.map((line) => h("p", {}, line))];
}

function draw(live) {
  const effective = live.engine?.effective ?? {};
  $("problem").hidden = !DATA.problem;
  $("problem").textContent = DATA.problem ?? "";
  $("none").hidden = DATA.knobs.length > 0 || Boolean(DATA.problem);
  $("knobs").hidden = DATA.knobs.length === 0;
  morph($("rows"), DATA.knobs.map((row) =>
    h(
      "tr",
      { "data-key": row.name },
      h("th", { scope: "row", class: "mono words" }, row.name),
      h("td", {}, h("span", { class: `lane ${row.lane}` }, word("lane", row.lane))),
      h("td", { class: "number" }, now(row, effective)),
      h("td", { class: "values" }, between(row)),
      h("td", {}, row.unit ?? ""),
      h("td", { class: "mono words" }, row.flag ?? ""),
      h("td", {}, row.state ?? unknown(t("unknown")), ...tried(row)),
      h("td", { class: "help" }, ...about(row)),
    ),
  ));
}

start({ draw });
