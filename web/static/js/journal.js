// The journal: every change, newest first.

import { $, h, morph } from "./dom.js";
import { knob, moment, span } from "./format.js";
import { DATA, start } from "./frame.js";
import { read } from "./server.js";
import { t, word } from "./text.js";

let entries = DATA.journal;

// Of the cold lane a setting may be a switch, or not have been spelled out before.
function said(value, name) {
  if (value === undefined || value === null) return t("journal.unset");
  return typeof value === "boolean" ? t(value ? "switch.on" : "switch.off") : knob(value, name);
}

function step(entry) {
  const moved = Object.entries(entry.change).filter(([name, value]) => entry.undo[name] !== value);
  if (!moved.length) return h("span", { class: "muted" }, t("journal.nothing"));
  return h("ul", { class: "changes" }, moved.map(([name, value]) =>
    h("li", {}, h("span", { class: "name" }, name), " ", h("span", { class: "values" }, said(entry.undo[name], name), " → ", h("b", {}, said(value, name)))),
  ));
}

function row(entry) {
  const took = entry.closed === null ? t("journal.open") : span(entry.closed - entry.intended);
  return h(
    "tr",
    { "data-key": String(entry.id) },
    h("td", { class: "number" }, entry.id),
    h("td", {}, moment(entry.intended)),
    h("td", {}, h("span", { class: `lane ${entry.lane}` }, word("lane", entry.lane))),
    h("td", {}, word("entry", entry.kind)),
    h("td", {}, h("span", { class: `state ${entry.outcome ?? "open"}` }, entry.outcome ? word("outcome", entry.outcome) : word("journal.state", entry.state))),
    h("td", {}, step(entry)),
    h("td", {}, entry.actor),
    h("td", { class: "number" }, took),
    h("td", {}, entry.reason ?? ""),
  );
}

function draw() {
  $("none").hidden = entries.length > 0;
  $("journal").hidden = entries.length === 0;
  morph($("entries"), entries.map(row));
}

async function load() {
  try {
    entries = await read("journal");
    draw();
  } catch (error) {
    console.warn(error.message);
  }
}

draw();
start({ trials: load });
