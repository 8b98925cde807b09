// Alerts: what the rules see now, the runs of playbooks, the playbooks and the rules.

import { answers, listen } from "./approvals.js";
import { $, h, morph } from "./dom.js";
import { ago, known, moment, plain, span } from "./format.js";
import { DATA, ask, command, start } from "./frame.js";
import { at, read } from "./server.js";
import { count, t, word } from "./text.js";

const BEATS = 3; // an evaluation comes every few seconds at most
const HIDDEN = new Set(["alertname", "severity"]);
let { alerts, runs, playbooks } = DATA;
let beats = 0;

export const labels = (pairs) =>
  h("span", { class: "labels" }, Object.entries(pairs).filter(([name]) => !HIDDEN.has(name)).map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value))));

const severity = (name) => h("span", { class: `severity ${name}` }, word("severity", name));

function since(alert, now) {
  const time = alert.state === "resolved" ? alert.resolved_at : (alert.fired_at ?? alert.active_at);
  return t("alert.since", { when: moment(time), ago: ago(time, now) });
}

function alertRow(alert, now) {
  const { summary, ...more } = alert.annotations;
  return h(
    "tr",
    { "data-key": `${alert.fingerprint}-${alert.name}` },
    h("th", { scope: "row" }, alert.name, " ", severity(alert.severity)),
    h("td", {}, h("span", { class: `state ${alert.state}` }, word("alert", alert.state)), known(alert.keep_firing_since) && h("p", { class: "muted" }, t("alerts.lingers"))),
    h("td", { class: "what" }, summary ?? "", more.description && h("p", {}, more.description)),
    h("td", {}, labels(alert.labels)),
    h("td", { class: "number" }, plain(alert.value)),
    h("td", {}, since(alert, now)),
    h("td", { class: "mono" }, alert.playbook ?? ""),
  );
}

function runRow(run) {
  return h(
    "tr",
    { "data-key": String(run.id) },
    h("td", { class: "number" }, h("a", { href: at(`runs/${run.id}`) }, run.id)),
    h("td", {}, moment(run.queued)),
    h("td", { class: "mono" }, run.playbook),
    h("td", {}, run.target),
    h("td", {}, h("span", { class: `state ${run.state}` }, word("run", run.state)), run.dry_run && h("p", { class: "muted" }, t("run.dry"))),
    h("td", {}, run.cause ?? ""),
    h("td", { class: "what" }, run.reason ?? ""),
    h("td", { class: "number" }, known(run.ended) ? span(run.ended - run.queued) : t("run.open")),
  );
}

const KINDS = ["check", "capture", "diagnose", "act", "verify"];

function step(one) {
  const kind = KINDS.find((name) => one[name] !== undefined && one[name] !== null) ?? "";
  const what = one[kind];
  const text = typeof what === "string" ? what : what ? `${what.kind} ${JSON.stringify(what.arguments ?? {})}` : "";
  return h("li", {}, h("span", { class: "kind" }, kind), h("b", {}, one.name), " ", h("code", {}, text));
}

function playbook(one) {
  const order = (name) => h("button", { type: "button", "data-playbook": one.name, "data-order": name }, t(`playbook.${name}`));
  return h(
    "details",
    { "data-key": one.name },
    h("summary", {}, h("span", { class: "title" }, one.title), h("span", { class: "mono muted" }, one.name), h("span", { class: "muted" }, t("playbook.rests", { span: span(one.cooldown_seconds) })), !one.changes && h("span", { class: "chip" }, t("playbook.looks"))),
    h("p", {}, one.description),
    one.guide && h("p", { class: "muted" }, one.guide),
    h("ol", { class: "steps" }, one.steps.map(step)),
    h("div", { class: "buttons" }, order("dry"), order("run")),
  );
}

function rule(one) {
  return h(
    "details",
    { "data-key": one.name },
    h(
      "summary",
      {},
      h("span", { class: "title" }, one.name),
      one.severity && severity(one.severity),
      h("span", { class: `state ${one.state}` }, word("alert", one.state)),
      one.for_seconds > 0 && h("span", { class: "muted" }, t("rules.for", { span: span(one.for_seconds) })),
      one.keep_firing_for_seconds > 0 && h("span", { class: "muted" }, t("rules.linger", { span: span(one.keep_firing_for_seconds) })),
      one.health === "err" && h("span", { class: "state failed" }, t("rules.ill", { error: one.last_error ?? "" })),
    ),
    one.description && h("p", {}, one.description),
    h("pre", {}, one.expr),
  );
}

function group(one) {
  const ill = one.rules.some((each) => each.health === "err");
  return h(
    "details",
    { "data-key": one.name, open: ill },
    h("summary", {}, h("span", { class: "title" }, one.name), h("span", { class: "muted" }, count("rules.count", one.rules.length)), h("span", { class: "muted" }, t("rules.every", { span: span(one.interval_seconds) })), one.missed > 0 && h("span", { class: "muted" }, t("rules.missed", { n: one.missed }))),
    one.rules.map(rule),
  );
}

function headline() {
  const firing = alerts.alerts.filter((alert) => alert.state === "firing");
  const serious = firing.filter((alert) => alert.severity !== "info");
  const line = $("headline");
  line.className = serious.length ? "bad" : "";
  line.textContent = serious.length ? count("alerts.firing", serious.length) : t(firing.length ? "alerts.only_info" : "alerts.calm");
}

function draw(live) {
  headline();
  morph($("banners"), [
    answers(live),
    !alerts.enabled && h("p", { class: "banner warning", role: "status" }, t("alerts.off")),
    alerts.trouble && h("p", { class: "banner error", role: "status" }, alerts.trouble),
  ]);
  $("quiet").hidden = alerts.alerts.length > 0;
  $("alerts").hidden = alerts.alerts.length === 0;
  morph($("alert-rows"), alerts.alerts.map((alert) => alertRow(alert, live.now)));
  $("no-runs").hidden = runs.length > 0;
  $("runs").hidden = runs.length === 0;
  morph($("run-rows"), runs.map(runRow));
  $("no-playbooks").hidden = playbooks.length > 0;
  morph($("playbooks"), playbooks.map(playbook));
  const rules = alerts.groups.reduce((total, one) => total + one.rules.length, 0);
  $("rule-count").textContent = rules ? count("rules.count", rules) : "";
  $("no-rules").hidden = rules > 0;
  morph($("groups"), alerts.groups.map(group));
  refresh();
}

async function refresh() {
  beats += 1;
  if (beats % BEATS) return;
  try {
    [alerts, runs] = await Promise.all([read("alerts"), read("runs?limit=30")]);
  } catch (error) {
    console.warn(error.message);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-playbook]");
  if (!button) return;
  const { playbook: name, order } = button.dataset;
  const dry = order === "dry";
  if (await ask(t(`playbook.${order}.title`, { name }), t(`playbook.${order}.text`), t("playbook.yes"), [], !dry)) {
    await command(`playbooks/${name}/run`, { dry_run: dry }, t("playbook.begun"));
  }
});

listen();
start({ draw });
