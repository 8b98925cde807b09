// The knob catalogue as it applies to this engine.

import { $, h, morph } from "./dom.js";
import { knob, known } from "./format.js";
import { DATA, start } from "./frame.js";
import { t, word } from "./text.js";

const unknown = (text) => h("span", { class: "unknown" }, text);

function between(row) {
  if (!known(row.low) && !known(row.high)) return unknown(t("unknown"));
  return t("knobs.between", { low: knob(row.low), high: knob(row.high) });
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
      h("th", { scope: "row", class: "mono" }, row.name),
      h("td", {}, h("span", { class: `lane ${row.lane}` }, word("lane", row.lane))),
      h("td", { class: "number" }, known(effective[row.name]) ? knob(effective[row.name]) : unknown(t("unknown"))),
      h("td", { class: "number" }, between(row)),
      h("td", {}, row.unit ?? ""),
      h("td", { class: "mono" }, row.flag ?? ""),
      h("td", {}, row.state ?? unknown(t("unknown"))),
      h("td", { class: "help" }, row.help ?? ""),
    ),
  ));
}

start({ draw });
