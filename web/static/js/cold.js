// A campaign over start-up settings: its trials in restarts, the hot campaigns inside them, and every restart.

import { h } from "./dom.js";
import { change, interval, knob, known, percent, span } from "./format.js";
import { at } from "./server.js";
import { count, t, word } from "./text.js";

// In the order of a restart; JSON has none.
const PHASES = ["preflight", "gate", "drain", "stop", "release", "start", "load", "health", "probe", "warm_up", "accuracy", "effective", "open"];

const said = (value) => (typeof value === "boolean" ? t(value ? "switch.on" : "switch.off") : knob(value ?? null));

const incumbentOf = (campaign) => campaign.settings?.cold ?? campaign.report?.cold?.incumbent ?? {};

export const coldDiff = (campaign, trial) => Object.entries(trial.values ?? {}).filter(([name, value]) => incumbentOf(campaign)[name] !== value);

function changes(campaign, trial) {
  const base = incumbentOf(campaign);
  const list = coldDiff(campaign, trial);
  if (!list.length) return h("span", { class: "muted" }, t("trial.same"));
  return h("ul", { class: "changes" }, list.map(([name, value]) =>
    h("li", {}, h("span", { class: "name" }, name), " ", h("span", { class: "values" }, said(base[name]), " → ", h("b", {}, said(value)))),
  ));
}

function mismatch(trial) {
  const off = Object.entries(trial.effective ?? {}).filter(([name, value]) => name in trial.values && trial.values[name] !== value);
  return off.map(([name, value]) => h("p", { class: "bad" }, t("detail.effective.differs", { name, asked: said(trial.values[name]), got: said(value) })));
}

function effect(trial) {
  const found = trial.effect;
  if (!known(found?.median)) return h("p", { class: "unknown" }, t("effect.none"));
  return [
    h("p", { class: "effect" }, change(found.median)),
    h("p", { class: "between" }, interval(found)),
    h("p", { class: "between" }, count("alternations", found.alternations ?? 0)),
    h("p", { class: "between label" }, t("cold.label")),
  ];
}

function inside(campaign, number) {
  const ran = campaign.inner.filter(({ trial }) => trial === number);
  if (!ran.length) return h("span", { class: "muted" }, t("cold.no_inner"));
  return ran.map((hot) =>
    h("p", {}, h("a", { href: at(`trials/${hot.id}`) }, t("campaign.n", { id: hot.id })), " ", word(hot.decision ? "decision" : "phase", hot.decision ?? hot.phase), known(hot.effect?.median) && ` ${change(hot.effect.median)}`),
  );
}

function row(campaign, trial, serving) {
  return h(
    "tr",
    { "data-key": `cold-${trial.number}`, class: trial.state },
    h("th", { scope: "row" }, h("b", {}, trial.number), " ", h("span", { class: `state ${trial.state}` }, word("state", trial.state)), serving === trial.number && h("p", { class: "muted" }, t("cold.serves"))),
    h("td", {}, changes(campaign, trial), mismatch(trial)),
    h("td", { class: "number" }, effect(trial)),
    h("td", {}, inside(campaign, trial.number)),
    h("td", { class: "why" }, trial.reason ?? ""),
  );
}

function incumbent(campaign, serving) {
  const values = Object.entries(incumbentOf(campaign)).map(([name, value]) => h("li", {}, h("span", { class: "name" }, name), " ", h("span", { class: "values" }, said(value))));
  return h(
    "tr",
    { "data-key": "cold-incumbent", class: "incumbent" },
    h("th", { scope: "row" }, h("span", { class: "state incumbent" }, t("incumbent")), serving === null && h("p", { class: "muted" }, t("cold.serves"))),
    h("td", {}, values.length ? h("ul", { class: "changes" }, values) : t("unknown")),
    h("td", {}),
    h("td", {}, inside(campaign, null)),
    h("td", {}),
  );
}

const columns = (names, numbers) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: numbers.includes(name) ? "number" : "" }, t(`cold.${name}`)))));

// `status` is what the daemon says of it while it runs.
export function coldTrials(campaign, status) {
  const serving = campaign.ended === null && status?.cold ? status.cold.trial : undefined;
  const rows = [incumbent(campaign, serving), ...campaign.trials.map((trial) => row(campaign, trial, serving))];
  return [h("table", { class: "cold" }, columns(["trial", "change", "effect", "inner", "why"], ["effect"]), h("tbody", {}, rows))];
}

export function coldRestarts(campaign) {
  const each = campaign.report?.cold?.each;
  if (!each) return [h("p", { class: "empty" }, t("cold.later"))];
  if (!each.length) return [h("p", { class: "empty" }, t("cold.none"))];
  const rows = each.map((one, index) => {
    const phases = PHASES.map((name) => [name, one.seconds?.[name]]).filter(([, seconds]) => seconds >= 1).map(([name, seconds]) => `${word("restart", name)} ${span(seconds)}`);
    return h(
      "tr",
      { "data-key": `restart-${index}` },
      h("td", {}, one.trial ? t("trial.n", { n: one.trial }) : t("incumbent")),
      h("td", {}, h("span", { class: `state ${one.outcome === "served" ? "promoted" : "aborted"}` }, word("restarted", one.outcome))),
      h("td", { class: "number" }, span(one.down_seconds)),
      h("td", { class: "number" }, span(one.own_seconds)),
      h("td", {}, phases.join(", ")),
      h("td", { class: "why" }, one.reason),
    );
  });
  return [h("table", { class: "cold" }, columns(["of", "outcome", "down", "own", "phases", "why"], ["down", "own"]), h("tbody", {}, rows))];
}

export function coldFacts(campaign, status) {
  const outer = campaign.settings?.outer ?? {};
  const spent = campaign.report?.cold ?? status?.cold ?? {};
  const lost = known(spent.lost_minutes) ? span(spent.lost_minutes * 60) : t("unknown");
  return [
    [t("fact.least"), percent(outer.min_effect ?? null, 0)],
    [t("fact.restarts"), h("span", {}, known(spent.restarts) ? String(spent.restarts) : t("unknown"), known(outer.restarts) && h("small", {}, t("fact.of", { span: outer.restarts })))],
    [t("fact.lost"), h("span", {}, lost, known(outer.lost_minutes) && h("small", {}, t("fact.of", { span: span(outer.lost_minutes * 60) })))],
  ];
}

export function coldSentence(campaign, status) {
  const won = campaign.trials.find((trial) => trial.state === "promoted");
  if (campaign.decision === "promoted" && won) {
    return t("cold.decided.promoted", { n: won.number, objective: campaign.objective?.name ?? t("unknown"), effect: change(won.effect?.median) });
  }
  if (campaign.decision) return t(`cold.decided.${campaign.decision}`);
  const phase = (status?.phase ?? "").split(": ")[0];
  return word("cold.doing", phase || "unknown");
}

export const hotStands = (campaign) => campaign.report?.hot?.decision === "promoted" && campaign.decision !== "promoted";
