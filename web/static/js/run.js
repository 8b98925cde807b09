// One walk of a playbook: where it stands, what it changed, and its audit.

import { answers, listen } from "./approvals.js";
import { $, h, morph } from "./dom.js";
import { figure, instant, known, moment, span } from "./format.js";
import { DATA, start } from "./frame.js";
import { read } from "./server.js";
import { t, word } from "./text.js";

const BEATS = 2;
let run = DATA.run;
let beats = 0;

function fact(name, value) {
  return h("div", { "data-key": name }, h("dt", {}, t(name)), h("dd", {}, value));
}

function facts(now) {
  const pairs = Object.entries(run.labels).map(([name, value]) => `${name}=${value}`).join(" ");
  const until = run.ended ?? now;
  return [
    fact("run.fact.cause", run.cause ?? t("run.no_cause")),
    fact("run.fact.source", word("by", run.source)),
    fact("run.fact.queued", moment(run.queued)),
    fact("run.fact.took", span(Math.max(0, until - run.queued))),
    !known(run.ended) && run.step && fact("run.fact.step", run.step),
    pairs && fact("run.fact.alert", h("span", { class: "mono" }, pairs)),
  ];
}

function figures(values) {
  return h("ul", { class: "figures" }, Object.entries(values).map(([name, value]) => h("li", {}, h("span", { class: "name" }, name), " ", figure(name, value))));
}

function actRow(act) {
  const failed = act.outcome && act.outcome.ok === false;
  return h(
    "tr",
    { "data-key": String(act.id), class: failed ? "problem" : null },
    h("th", { scope: "row" }, act.step),
    h("td", {}, h("span", { class: `state ${act.state}` }, word("act.state", act.state))),
    h("td", { class: "what" }, act.plan.text ?? act.action.kind),
    h("td", {}, word("blast", act.plan.blast)),
    h("td", {}, t(act.plan.reversible ? "act.way_back" : "act.no_way_back")),
    h("td", { class: "what" }, act.outcome?.text ?? "", act.outcome?.figures && figures(act.outcome.figures)),
  );
}

function eventRow(event, number) {
  return h(
    "tr",
    { "data-key": String(number) },
    h("td", {}, instant(event.time)),
    h("td", { class: "mono" }, event.step ?? ""),
    h("td", {}, h("span", { class: "kind" }, event.kind)),
    h("td", { class: "what" }, event.text),
    h("td", {}, figures(event.figures)),
  );
}

function draw(live) {
  $("headline").textContent = t("run.title", { playbook: run.playbook, target: run.target });
  $("reason").textContent = run.reason ?? "";
  morph($("standing"), [
    h("span", { class: `state ${run.state}` }, word("run", run.state)),
    run.dry_run && h("p", { class: "muted" }, t("run.dry")),
  ]);
  morph($("banners"), answers(live, (one) => one.id.startsWith(`run-${run.id}-`)));
  morph($("facts"), facts(live.now));
  $("no-acts").hidden = run.acts.length > 0;
  $("acts").hidden = run.acts.length === 0;
  morph($("act-rows"), run.acts.map(actRow));
  morph($("event-rows"), run.events.map(eventRow));
  refresh();
}

async function refresh() {
  beats += 1;
  if (beats % BEATS || known(run.ended)) return;
  try {
    run = await read(`runs/${run.id}`);
  } catch (error) {
    console.warn(error.message);
  }
}

listen();
start({ draw });
