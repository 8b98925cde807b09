// The trials page: one campaign, its trials against the incumbent, and what was decided.

import { effectDomain, effectOf, effectScale, gainToEffect, leastEffect } from "./axis.js";
import { blockGround, blockRow, blockScale, blocksOf, strip } from "./blocks.js";
import { coldDiff, coldFacts, coldRestarts, coldSentence, coldTrials, hotStands } from "./cold.js";
import { $, h, morph } from "./dom.js";
import { details } from "./detail.js";
import { effectAxis, effectGround, effectRow } from "./effects.js";
import { change, figure, interval, knob, known, moment, percent, span, still } from "./format.js";
import { DATA, start } from "./frame.js";
import { at, read } from "./server.js";
import { count, t, word } from "./text.js";

const NARROW = 760;
const SHOWN = 12;
const opened = new Set();
let unfolded = false;
let { campaigns, campaign } = DATA;
let now = DATA.live.now;
let running = DATA.live.campaign;

// What the daemon says of the shown campaign while it runs.
const status = () => (running && campaign && running.id === campaign.id ? running : null);
const cold = () => campaign.lane === "cold";

// Promoted first, then what was or is confirmed, what races, and what the race let go; what was not measured is last.
function rank({ state, seen, pairs }) {
  if (state === "promoted") return 0;
  if (state === "confirming" || pairs.some(({ pair }) => pair.phase === "confirm") || seen?.phase === "confirm") return 1;
  if (state === "racing") return 2;
  return { proposed: 4, aborted: 5, invalid: 6 }[state] ?? 3;
}

function ordered(trials) {
  const size = ({ seen }) => (known(seen?.median) ? seen.median : -Infinity);
  return [...trials].sort((a, b) => rank(a) - rank(b) || size(b) - size(a) || a.number - b.number);
}

// A long campaign tries dozens: those that a race let go early stand behind a button.
function folded(trials) {
  if (unfolded || trials.length <= SHOWN + 3) return [trials, []];
  const kept = trials.filter((trial, index) => index < SHOWN || rank(trial) <= 2 || opened.has(trial.number));
  return [kept, trials.filter((trial) => !kept.includes(trial))];
}

function foldRow(hidden) {
  const states = new Map();
  for (const { state } of hidden) states.set(state, (states.get(state) ?? 0) + 1);
  const list = [...states].map(([state, n]) => `${n} ${word("state", state)}`).join(", ");
  return h("tbody", { "data-key": "fold", class: "fold" }, h("tr", {}, h("td", { colspan: 5 }, h("button", { type: "button", class: "more" }, t("plot.more", { n: hidden.length })), h("span", { class: "muted" }, list))));
}

function outcome(item) {
  const effect = item.report?.effect;
  if (item.decision === "promoted" && known(effect?.median)) return t("rail.promoted", { effect: change(effect.median) });
  return item.decision ? word("decision", item.decision) : word("phase", item.phase);
}

function rail() {
  return campaigns.map((item) =>
    h(
      "li",
      { "data-key": String(item.id) },
      h(
        "a",
        { href: at(`trials/${item.id}`), class: `tab ${item.decision ?? "running"}`, "aria-current": item.id === campaign?.id ? "page" : null },
        h("b", {}, t("campaign.n", { id: item.id }), " ", item.lane === "cold" && h("span", { class: "lane cold" }, word("lane", item.lane))),
        h("span", {}, outcome(item), item.parent !== null && h("i", {}, ` ${t("rail.inside", { id: item.parent })}`)),
        h("small", {}, moment(item.started)),
      ),
    ),
  );
}

const diff = (values, base) => Object.entries(values ?? {}).filter(([name, value]) => base?.[name] !== value);

const steps = (values, base) => diff(values, base).map(([name, value]) => t("step", { name, from: knob(base?.[name] ?? null, name), to: knob(value, name) })).join(", ");

function sentence() {
  if (cold()) return coldSentence(campaign, status());
  const promoted = campaign.trials.find((trial) => trial.state === "promoted");
  const effect = campaign.report?.effect ?? promoted?.effect;
  const goal = campaign.objective?.name ?? t("unknown");
  if (campaign.decision === "promoted" && promoted) {
    return t("decided.promoted", { n: promoted.number, objective: goal, effect: change(effect?.median) });
  }
  if (campaign.decision) return t(`decided.${campaign.decision}`);
  const racing = campaign.trials.filter((trial) => trial.state === "racing").length;
  const confirming = campaign.trials.filter((trial) => trial.state === "confirming").length;
  if (campaign.phase === "confirm") return t("doing.confirm", { trials: count("trials", confirming) });
  if (campaign.phase === "race") return t("doing.race", { trials: count("trials", racing) });
  return t(`doing.${campaign.phase}`);
}

const coldSteps = (trial) => coldDiff(campaign, trial).map(([name, value]) => t("step", { name, from: String(campaign.settings?.cold?.[name] ?? t("unknown")), to: String(value) })).join(", ");

function because() {
  const promoted = campaign.trials.find((trial) => trial.state === "promoted");
  const effect = campaign.report?.effect ?? promoted?.effect;
  const reasons = campaign.report?.reasons ?? [];
  return [
    campaign.parent !== null && h("p", {}, h("a", { href: at(`trials/${campaign.parent}`) }, t("campaign.inside", { id: campaign.parent }))),
    campaign.decision === "promoted" && promoted && h("p", { class: "between mono" }, cold() ? coldSteps(promoted) : steps(promoted.values, campaign.incumbent)),
    cold() && hotStands(campaign) && h("p", { class: "between" }, t("cold.hot_stands")),
    cold() && campaign.decision === "promoted" && h("p", { class: "between" }, t("cold.claim", { interval: interval(promoted?.effect) })),
    !cold() && campaign.decision === "promoted" && known(effect?.low) && h("p", { class: "between" }, t("decided.between", { interval: interval(effect) })),
    [...new Set(reasons)].map((reason) => h("p", {}, reason)),
  ];
}

function facts() {
  const settings = campaign.settings ?? {};
  const noise = campaign.calibration ?? {};
  const least = leastEffect(campaign);
  const blocks = new Set(campaign.windows.map(({ block }) => block)).size;
  const goal = campaign.objective ?? {};
  const limits = (settings.slo?.limits ?? []).map(({ metric, quantile, seconds }) => `${metric} p${Math.round(quantile * 100)} ≤ ${still(seconds)}`);
  if (known(settings.slo?.error_ratio)) limits.push(t("fact.errors", { ratio: percent(settings.slo.error_ratio, 1) }));
  const quantile = /^(ttft|itl|e2e)$/.test(goal.name) && known(goal.quantile) ? ` p${Math.round(goal.quantile * 100)}` : "";
  const detectable = noise.detectable_effect ?? campaign.report?.detectable_effect;
  const first = [
    [t("fact.objective"), h("span", {}, `${goal.name ?? t("unknown")}${quantile}`, h("small", {}, [goal.unit, word("direction", goal.direction)].filter(Boolean).join(", ")))],
    [t("fact.limits"), limits.length ? limits.map((limit) => h("small", { class: "limit" }, limit)) : t("fact.no_limits")],
  ];
  const time = h("span", {}, span((campaign.ended ?? now) - campaign.started), !cold() && known(settings.minutes) && h("small", {}, t("fact.of", { span: span(settings.minutes * 60) })));
  const rest = cold() ? [...coldFacts(campaign, status()), [t("fact.time"), time]] : [
    [t("fact.least"), percent(least, 1)],
    [t("fact.detectable"), percent(detectable ?? null, 1)],
    [t("fact.time"), time],
    [t("fact.measured"), h("span", {}, count("blocks", blocks), h("small", {}, `${count("windows", campaign.windows.length)}, ${count("pairs", campaign.pairs.length)}`))],
  ];
  return [...first, ...rest].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

function widths() {
  const total = $("plot").clientWidth;
  if (total < NARROW) return { narrow: true, blocks: total - 24, effects: total - 24 };
  const fixed = { trial: 116, what: Math.round(Math.max(150, Math.min(256, total * 0.185))), figures: 148 };
  const rest = total - fixed.trial - fixed.what - fixed.figures;
  const blocks = Math.floor(rest * 0.49);
  return { narrow: false, ...fixed, blocks, effects: Math.floor(rest - blocks) };
}

function changes(trial) {
  const list = diff(trial.values, campaign.incumbent);
  if (!list.length) return h("span", { class: "muted" }, t("trial.same"));
  return h("ul", { class: "changes" }, list.map(([name, value]) =>
    h("li", {}, h("span", { class: "name" }, name), " ", h("span", { class: "values" }, knob(campaign.incumbent?.[name] ?? null, name), " → ", h("b", {}, knob(value, name)))),
  ));
}

function raceClaim(effect) {
  if (effect.phase === "so_far") return t("effect.so_far");
  if (!known(effect.low) || !known(effect.high)) return t("interval.unknown");
  return t("effect.race", { error: percent((effect.high - effect.low) / 2, 1) });
}

function figures(trial, pairs) {
  const effect = trial.seen;
  if (!known(effect?.median)) return h("p", { class: "unknown" }, t("effect.none"));
  const claim = effect.phase === "confirm" ? interval(effect) : raceClaim(effect);
  return [
    h("p", { class: "effect" }, change(effect.median)),
    h("p", { class: "between" }, claim),
    h("p", { class: "between" }, count("pairs", effect.pairs ?? pairs.length)),
  ];
}

function charts(row, drawn) {
  const { scale, blocks, reach, width } = drawn;
  const least = leastEffect(campaign);
  return [
    h("td", { class: "time" }, h("div", { class: "canvas" }, blockGround(blocks), blockRow({ ...row, scale: blocks, reach }))),
    h("td", { class: "scale" }, h("div", { class: "canvas" }, effectGround(scale, least, width.effects), effectRow({ ...row, scale, width: width.effects }))),
  ];
}

function row(trial, drawn) {
  const mine = trial.pairs;
  const label = t("trial.n", { n: trial.number });
  const open = opened.has(trial.number);
  const minEffect = leastEffect(campaign);
  const cells = h(
    "tr",
    { class: "trial" },
    h(
      "th",
      { scope: "row" },
      h(
        "button",
        { type: "button", class: "unfold", "data-trial": trial.number, "aria-expanded": String(open), "aria-label": t("trial.more", { name: label }) },
        h("span", { class: "caret", "aria-hidden": "true" }), h("span", { class: "n" }, trial.number),
      ),
      h("span", { class: `state ${trial.state}` }, word("state", trial.state)),
    ),
    h("td", { class: "what" }, changes(trial), trial.reason && h("p", { class: "reason", title: trial.reason }, trial.reason)),
    charts({ pairs: mine, effect: trial.seen, state: trial.state, trial: trial.number, label, minEffect: trial.state === "invalid" ? null : minEffect }, drawn),
    h("td", { class: "figures" }, figures(trial, mine)),
  );
  return h("tbody", { "data-key": `trial-${trial.number}`, class: trial.state, "data-trial": trial.number }, cells, open && details(trial, mine, campaign, drawn.toEffect));
}

function incumbentRow(drawn) {
  const mine = drawn.pairs.filter(({ pair }) => pair.phase === "calibrate");
  const label = t("incumbent");
  const sd = campaign.calibration?.paired_sd;
  const values = Object.entries(campaign.incumbent ?? {}).map(([name, value]) => h("li", {}, h("span", { class: "name" }, name), " ", h("span", { class: "values" }, knob(value, name))));
  return h(
    "tbody",
    { "data-key": "incumbent", class: "incumbent", "data-trial": "incumbent" },
    h(
      "tr",
      { class: "trial" },
      h("th", { scope: "row" }, h("span", { class: "state incumbent" }, label)),
      h("td", { class: "what" }, h("ul", { class: "changes" }, values)),
      charts({ pairs: mine, effect: null, state: "incumbent", trial: "incumbent", label, minEffect: null }, drawn),
      h("td", { class: "figures" }, h("p", { class: "between" }, t("incumbent.noise")), h("p", { class: "effect small" }, known(sd) ? t("incumbent.sd", { sd: percent(sd, 1) }) : t("unknown")), h("p", { class: "between" }, count("pairs", mine.length))),
    ),
  );
}

function plot() {
  const toEffect = gainToEffect(campaign);
  // Adjusted for what the traffic brought: that is what the tuner judges by.
  const pairs = campaign.pairs.map((pair) => ({ pair, effect: toEffect(pair.adjusted) }));
  const trials = campaign.trials.map((trial) => {
    const mine = pairs.filter(({ pair }) => pair.trial === trial.number && pair.phase !== "calibrate");
    return { ...trial, pairs: mine, seen: effectOf(trial, mine) };
  });
  const [shown, hidden] = folded(ordered(trials));
  const minEffect = leastEffect(campaign);
  const width = widths();
  const noise = pairs.filter(({ pair }) => pair.phase === "calibrate");
  const dots = [...noise, ...shown.flatMap((trial) => trial.pairs)].map(({ effect }) => effect);
  const domain = effectDomain(shown.map(({ seen }) => seen), dots, minEffect);
  const drawn = {
    pairs,
    toEffect,
    width,
    scale: effectScale(domain, width.effects),
    blocks: blockScale(blocksOf(campaign), width.blocks),
    reach: Math.max(Math.abs(Math.log1p(domain[0])), Math.log1p(domain[1])),
  };
  $("plot").classList.toggle("narrow", width.narrow);
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      h("th", { scope: "col" }, t("plot.trial")),
      h("th", { scope: "col" }, t("plot.change")),
      h("th", { scope: "col", class: "time" }, h("span", { class: "title" }, t("plot.time")), drawn.blocks.blocks.length > 0 && strip(drawn.blocks)),
      h("th", { scope: "col", class: "scale" }, h("span", { class: "title" }, t("plot.effect", { objective: campaign.objective?.name ?? "" })), effectAxis(drawn.scale, minEffect, width.effects)),
      h("th", { scope: "col", class: "figures" }, t("plot.figures")),
    ),
  );
  const columns = ["trial", "what", "blocks", "effects", "figures"].map((name) => h("col", { style: { width: `${width[name]}px` } }));
  const rows = shown.map((trial) => row(trial, drawn));
  if (hidden.length) rows.push(foldRow(hidden));
  if (!rows.length) rows.push(h("tbody", { class: "none" }, h("tr", {}, h("td", { colspan: 5, class: "empty" }, t("plot.no_trials")))));
  return h("table", { class: "trials" }, h("caption", { class: "away" }, t("plot.caption")), !width.narrow && h("colgroup", {}, columns), head, incumbentRow(drawn), rows);
}

function decisions() {
  return [...campaign.decisions].reverse().map((item) =>
    h(
      "li",
      { "data-key": String(item.id) },
      h("time", { title: moment(item.time) }, `+${span(item.time - campaign.started)}`),
      h("span", { class: `kind ${item.kind}` }, word("kind", item.kind)),
      h("p", {}, item.trial !== null && h("b", {}, t("decision.trial", { n: item.trial }), " "), item.text, Object.keys(item.figures ?? {}).length > 0 && h("small", { class: "mono" }, Object.entries(item.figures).map(([name, value]) => `${name} ${figure(name, value)}`).join("  "))),
    ),
  );
}

function traffic() {
  const list = Object.entries(campaign.fingerprint ?? {});
  if (!list.length) return [h("p", { class: "empty" }, t("traffic.unknown"))];
  return list.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, figure(name, value))));
}

function draw() {
  const some = campaign !== null;
  $("none").hidden = some;
  $("campaign").hidden = !some;
  morph($("rail"), rail());
  if (!some) return;
  const state = campaign.decision ?? "running";
  $("outcome").className = `outcome ${state}`;
  $("campaign-title").textContent = t("campaign.title", { id: campaign.id, state: campaign.decision ? word("decision", campaign.decision) : word("phase", (status()?.phase ?? campaign.phase).split(": ")[0]) });
  $("sentence").textContent = sentence();
  morph($("because"), because());
  morph($("facts"), facts());
  $("hot").hidden = cold();
  $("cold").hidden = !cold();
  if (cold()) {
    morph($("cold-trials"), coldTrials(campaign, status()));
    morph($("restarts"), coldRestarts(campaign));
  } else {
    morph($("plot"), [plot()]);
  }
  morph($("decisions"), decisions());
  morph($("traffic"), traffic());
}

let loading = null;
let again = false;

async function load() {
  if (loading) {
    again = true;
    return;
  }
  loading = (async () => {
    campaigns = await read("campaigns");
    const wanted = DATA.follow ? campaigns.find(({ parent }) => parent === null)?.id : campaign?.id;
    if (wanted !== undefined) campaign = await read(`campaigns/${wanted}`);
    draw();
  })();
  try {
    await loading;
  } catch (error) {
    console.warn(error.message);
  } finally {
    loading = null;
  }
  if (again) {
    again = false;
    setTimeout(load, 1000);
  }
}

$("plot").addEventListener("click", (event) => {
  if (event.target.closest("button.more")) {
    unfolded = true;
    draw();
    return;
  }
  const button = event.target.closest("button.unfold");
  if (!button) return;
  const number = Number(button.dataset.trial);
  if (!opened.delete(number)) opened.add(number);
  draw();
});

// A block, or a trial, under the pointer is shown wherever it appears.
$("plot").addEventListener("pointerover", (event) => {
  for (const name of ["block", "trial"]) {
    const value = event.target.closest?.(`[data-${name}]`)?.dataset[name];
    for (const node of $("plot").querySelectorAll(".hot-" + name)) node.classList.remove("hot-" + name);
    if (value === undefined) continue;
    for (const node of $("plot").querySelectorAll(`[data-${name}="${value}"]`)) node.classList.add("hot-" + name);
  }
});

start({
  draw: (live) => {
    now = live.now ?? now;
    running = live.campaign;
    if (campaign && cold() && campaign.ended === null) draw();
  },
  trials: load,
});
draw();
new ResizeObserver(() => requestAnimationFrame(() => campaign && draw())).observe($("campaign"));
