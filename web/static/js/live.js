// The live page.

import { campaign, phases, restart } from "./campaign.js";
import { $, h, morph } from "./dom.js";
import { ago, celsius, figure, gib, integer, knob, known, moment, percent, rate, rateParts, seconds, secondsParts, span, still, watts } from "./format.js";
import { DATA, ask, command, start } from "./frame.js";
import { range } from "./range.js";
import { at } from "./server.js";
import { sparkline } from "./sparkline.js";
import { count, t, word } from "./text.js";

const POINTS = 450;
// A page opened just now shows two minutes, so that its lines are seen at all.
const LEAST_POINTS = 60;
const trend = DATA.trend;
let beats = 0;
let latest = DATA.live;

const FIGURES = {
  ttft_p50: ["latency", "ttft_p50"],
  ttft_p99: ["latency", "ttft_p99"],
  itl_p50: ["latency", "itl_p50"],
  itl_p99: ["latency", "itl_p99"],
  e2e_p50: ["latency", "e2e_p50"],
  e2e_p99: ["latency", "e2e_p99"],
  output_tokens_per_second: ["throughput", "output_tokens_per_second"],
  running: ["queue", "running"],
  waiting: ["queue", "waiting"],
  kv_usage: ["queue", "kv_usage"],
};

// The server keeps a point every other second; go on in the same step.
function remember(live) {
  beats += 1;
  if (beats % 2 === 0) return;
  for (const [name, [group, key]] of Object.entries(FIGURES)) {
    const line = (trend.series[name] ??= []);
    line.push(live[group]?.[key] ?? null);
    if (line.length > POINTS) line.shift();
  }
}

const series = (name) => trend.series[name] ?? [];

const unknownClass = (value) => (known(value) ? "" : " unknown");

function tile({ key, name, help, parts, value, tag, strong, soft, limit, below, most, label }) {
  const over = known(limit) && known(value) && value > limit;
  return h(
    "section",
    { class: over ? "tile over" : "tile", "data-key": key, "aria-label": help },
    h("header", {}, h("h3", { title: help }, name), known(limit) && h("span", { class: "limit" }, t("tile.limit", { value: still(limit) }))),
    h(
      "p",
      { class: `figure${unknownClass(value)}` },
      h("b", {}, parts[0]),
      parts[1] && h("span", { class: "unit" }, ` ${parts[1]}`),
      tag && h("span", { class: "tag" }, tag),
    ),
    sparkline(strong, soft, { points: Math.max(LEAST_POINTS, strong.length), limit, label: label ?? t("tile.line", { name: help }), most }),
    h("p", { class: "below" }, below),
  );
}

const pair = (name, text) => h("span", {}, h("span", { class: "name" }, name), " ", text);

function latencyTile(live, name) {
  const of = live.latency ?? {};
  const value = of[`${name}_p99`];
  return tile({
    key: name,
    name: t(`${name}.short`),
    help: t(`${name}.help`),
    parts: secondsParts(value),
    value,
    tag: "p99",
    strong: series(`${name}_p99`),
    soft: series(`${name}_p50`),
    limit: live.slo?.[`${name}_p99_seconds`] ?? null,
    below: [pair("p50", seconds(of[`${name}_p50`])), pair("p90", seconds(of[`${name}_p90`]))],
  });
}

function tiles(live) {
  const through = live.throughput ?? {};
  const queue = live.queue ?? {};
  return [
    ...["ttft", "itl", "e2e"].map((name) => latencyTile(live, name)),
    tile({
      key: "throughput",
      name: t("throughput.short"),
      help: t("throughput.help"),
      parts: rateParts(through.output_tokens_per_second, t("unit.tokens_per_second")),
      value: through.output_tokens_per_second,
      strong: series("output_tokens_per_second"),
      below: [
        pair(t("throughput.prompt"), rate(through.prompt_tokens_per_second, t("unit.tokens_per_second"))),
        pair(t("throughput.requests"), rate(through.requests_per_second, t("unit.per_second"))),
      ],
    }),
    tile({
      key: "queue",
      name: t("queue.short"),
      help: t("queue.help"),
      parts: [integer(queue.running), known(queue.running) ? t("queue.running") : ""],
      value: queue.running,
      strong: series("running"),
      soft: series("waiting"),
      below: [
        pair(t("queue.waiting"), integer(queue.waiting)),
        pair(t("queue.preempted"), rate(through.preemptions_per_second, t("unit.per_second"))),
      ],
    }),
    tile({
      key: "kv",
      name: t("kv.short"),
      help: t("kv.help"),
      parts: known(queue.kv_usage) ? percent(queue.kv_usage).split("\u00a0") : [t("unknown"), ""],
      value: queue.kv_usage,
      strong: series("kv_usage"),
      most: 1,
      below: t("kv.below"),
    }),
  ];
}

function headline(live) {
  const engine = live.engine ?? {};
  const campaign = live.campaign;
  if (live.restart) return ["held", t("restart.waiting", { phase: word("restart", live.restart.phase) })];
  if (engine.reachable === false) return ["bad", t("headline.unreachable")];
  if (live.paused) return ["held", t("headline.paused")];
  if (live.stopped && !campaign) return ["held", t("headline.stopped", { why: live.stopped })];
  if (campaign) {
    const phase = phases(campaign.phase);
    return ["good", campaign.id === null ? t("headline.starting") : t("headline.campaign", { phase, id: campaign.id })];
  }
  if (engine.reachable !== true) return ["unknown", t("headline.unknown")];
  return ["good", t(`headline.${live.mode ?? "unknown_mode"}`)];
}

function describe(live) {
  const engine = live.engine ?? {};
  const lease = known(engine.lease_remaining_seconds);
  const parts = [
    [t("engine.name"), [engine.name ?? engine.engine, engine.version].filter(Boolean).join(" ") || t("unknown")],
    [t("engine.model"), engine.model ?? t("unknown")],
    [t("engine.plugin"), engine.plugin ?? t("engine.no_plugin")],
    [t("engine.epoch"), known(engine.epoch) ? String(engine.epoch) : t("unknown")],
    [t("engine.gate"), word("gate", engine.gate)],
    lease && [t("engine.lease"), t("engine.lease.left", { span: span(engine.lease_remaining_seconds) })],
  ];
  return parts.filter(Boolean).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)));
}

function actions(live) {
  const button = (name, kind = "") => h("button", { type: "button", "data-act": name, class: kind }, t(`act.${name}`));
  return [
    live.campaign || live.mode === "observe" ? null : button("tune", "primary"),
    button(live.paused ? "resume" : "pause", live.paused ? "primary" : ""),
    button("rollback"),
    button("detach"),
  ];
}

function changed(values, launch) {
  return Object.entries(values ?? {})
    .filter(([name, value]) => launch?.[name] !== value)
    .map(([name, value]) => `${name} ${knob(launch?.[name], name)} → ${knob(value, name)}`)
    .join(", ");
}

// Which alerts they are is told on their own page.
function alerts(live) {
  if (!live.alerts_firing) return null;
  return h("div", { class: "banner warning", role: "status", "data-key": "alerts" }, h("p", {}, h("a", { href: at("alerts") }, count("alerts.firing", live.alerts_firing))));
}

function adaptive(live) {
  const mode = live.adaptive;
  if (!mode) return null;
  const values = () => Object.entries(mode.values ?? {}).map(([name, value]) => `${name} ${knob(value, name)}`).join(", ");
  const says = mode.active ? t("adaptive.active", { values: values() }) : mode.off ? t("adaptive.off", { why: mode.off }) : t("adaptive.watches");
  return h("div", { class: "banner info", role: "status", "data-key": "adaptive" }, h("p", {}, h("span", { class: "level" }, t("adaptive.name")), says));
}

function banners(live) {
  const pending = live.pending;
  const asked = pending && h(
    "div",
    { class: "banner asks", role: "status", "data-key": `ask-${pending.id}` },
    h("p", {}, h("b", {}, pending.text ?? t("pending.text")), h("span", { class: "muted mono" }, changed(pending.values, live.engine?.launch))),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "primary", "data-act": "approve", "data-id": pending.id }, t("act.approve")),
      h("button", { type: "button", "data-act": "decline", "data-id": pending.id }, t("act.decline")),
    ),
  );
  const notices = (live.notices ?? []).filter(({ text }) => !(live.restart && text.startsWith("restart: "))).map((notice) =>
    h(
      "div",
      { class: `banner ${notice.level ?? "info"}`, role: "status", "data-key": `notice-${notice.key ?? notice.text}` },
      h("p", {}, h("span", { class: "level" }, word("level", notice.level)), notice.text),
      known(notice.since) && h("span", { class: "muted", title: moment(notice.since) }, ago(notice.since, live.now)),
    ),
  );
  return [asked, restart(live), alerts(live), adaptive(live), ...notices];
}

function config(live) {
  const engine = live.engine ?? {};
  const names = [...new Set([engine.effective, engine.values, engine.launch, engine.ceilings].flatMap((from) => Object.keys(from ?? {})))];
  const host = hostRows(live);
  if (!names.length && !host.length) return [h("p", { class: "empty" }, t(live.restart ? "config.restarting" : "config.empty"))];
  const rows = names.map((name) => {
    const asked = engine.values?.[name];
    const now = engine.effective?.[name] ?? null;
    const launch = engine.launch?.[name];
    const differs = known(asked) && known(now) && asked !== now;
    const moved = known(now) && known(launch) && now !== launch;
    return h(
      "tr",
      { "data-key": name, class: moved ? "moved" : "" },
      h("th", { scope: "row", class: "mono" }, name),
      h(
        "td",
        { class: `number now${unknownClass(now)}` },
        knob(now, name),
        differs && h("span", { class: "asked", title: t("config.asked.help") }, t("config.asked", { value: knob(asked, name) })),
      ),
      h("td", { class: `number${unknownClass(launch)}` }, knob(launch, name)),
      h("td", { class: "where" }, range(name, now, launch, engine.floors?.[name], engine.ceilings?.[name])),
      h("td", { class: `number${unknownClass(engine.ceilings?.[name])}` }, knob(engine.ceilings?.[name])),
    );
  });
  const head = ["knob", "now", "launch", "where", "ceiling"].map((name) =>
    h("th", { scope: "col", class: name === "knob" || name === "where" ? "" : "number" }, t(`config.${name}`)),
  );
  return [h("table", { class: "config" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows, host))];
}

// Knobs of the host have texts, and no launch value; when they were seen is said, as nobody reads them each second.
function hostRows(live) {
  return Object.entries(live.host?.values ?? {}).map(([name, value]) =>
    h(
      "tr",
      { "data-key": `host-${name}`, class: "host" },
      h("th", { scope: "row", class: "mono" }, name),
      h("td", { class: "number now" }, value),
      h("td", { class: "muted", colspan: 3 }, t("config.host", { ago: ago(live.host.seen, live.now) })),
    ),
  );
}

function meter(ratio, text, warn) {
  if (!known(ratio)) return h("span", { class: "unknown" }, t("unknown"));
  const shown = Math.min(1, Math.max(0, ratio));
  return h(
    "span",
    { class: warn ? "metered warn" : "metered" },
    h("span", { class: "meter" }, h("i", { style: { width: `${(shown * 100).toFixed(1)}%` } })),
    h("span", { class: "number" }, text),
  );
}

function devices(live) {
  const list = live.devices ?? [];
  if (!list.length) return [h("p", { class: "empty" }, t("devices.empty"))];
  const rows = list.map((device) => {
    const hot = known(device.temperature_celsius) && device.temperature_celsius >= 85;
    const full = device.hbm_used_bytes / device.hbm_total_bytes;
    const health = device.health_ok === true ? "good" : device.health_ok === false ? "bad" : "unknown";
    const memory = known(full) ? `${gib(device.hbm_used_bytes).split("\u00a0")[0]} / ${gib(device.hbm_total_bytes)}` : "";
    return h(
      "tr",
      { "data-key": `${device.npu}-${device.chip}` },
      h("th", { scope: "row" }, h("span", { class: `dot ${health}`, role: "img", "aria-label": t(`health.${health}`), "data-tip": t(`health.${health}`) }), t("devices.name", { npu: device.npu ?? "?", chip: device.chip ?? "?" }), h("span", { class: "muted" }, device.name ?? "")),
      h("td", { "data-label": t("devices.aicore") }, meter(device.aicore_usage_ratio, percent(device.aicore_usage_ratio))),
      h("td", { "data-label": t("devices.hbm") }, meter(full, memory, full > 0.95)),
      h("td", { class: `number${unknownClass(device.temperature_celsius)}${hot ? " hot" : ""}`, "data-label": t("devices.temperature") }, celsius(device.temperature_celsius)),
      h("td", { class: `number${unknownClass(device.power_watts)}`, "data-label": t("devices.power") }, watts(device.power_watts)),
    );
  });
  const head = ["device", "aicore", "hbm", "temperature", "power"].map((name) =>
    h("th", { scope: "col", class: name === "temperature" || name === "power" ? "number" : "" }, t(`devices.${name}`)),
  );
  return [h("table", { class: "devices" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))];
}

function signs(live) {
  const list = live.signs ?? [];
  if (!list.length) return [h("p", { class: "empty" }, t("signs.empty"))];
  const items = list.map((sign) => {
    const place = [
      sign.npu && t("devices.name", { npu: sign.npu, chip: sign.chip ?? "?" }),
      sign.of && word("skewed", sign.of),
    ];
    return h(
      "li",
      { "data-key": sign.name },
      sign.warn ? h("span", { class: "dot bad", role: "img", "aria-label": t("signs.warn") }) : h("span"),
      h("span", {}, word("sign", sign.name)),
      h("span", { class: "muted" }, place.filter(Boolean).join(" · ")),
      h("b", { class: "number" }, figure(sign.name, sign.value)),
    );
  });
  return [h("ul", { class: "signs" }, items)];
}

function sources(live) {
  const list = live.sources ?? [];
  if (!list.length) return [h("p", { class: "empty" }, t("sources.empty"))];
  const items = list.map((source) => {
    const state = source.success === true ? "good" : source.success === false ? "bad" : "unknown";
    return h(
      "li",
      { "data-key": source.name },
      h("span", { class: `dot ${state}`, role: "img", "aria-label": t(`source.${state}`) }),
      h("b", {}, source.name),
      h("span", { class: "muted" }, known(source.last_success) ? t("source.read", { ago: ago(source.last_success, live.now), took: still(source.duration_seconds) }) : t("source.never")),
      source.error && h("p", { class: "error" }, source.error),
    );
  });
  return [h("ul", { class: "sources" }, items)];
}

function draw(live) {
  latest = live;
  remember(live);
  const [mood, sentence] = headline(live);
  const title = $("headline");
  title.className = mood;
  if (title.textContent !== sentence) title.textContent = sentence;
  morph($("about"), describe(live));
  morph($("actions"), actions(live));
  morph($("banners"), banners(live));
  morph($("tiles"), tiles(live));
  morph($("config"), config(live));
  morph($("campaign"), campaign(live));
  morph($("devices"), devices(live));
  morph($("signs"), signs(live));
  morph($("sources"), sources(live));
}

function tuneFields() {
  const option = (name) => h("label", {}, h("input", { type: "radio", name: "mode", value: name, checked: name === (latest.mode === "act" ? "act" : "advise") }), h("span", {}, t(`mode.${name}`), h("small", {}, t(`mode.${name}.help`))));
  return [
    h("fieldset", {}, h("legend", {}, t("tune.mode")), option("advise"), option("act")),
    h("label", { class: "field" }, t("tune.minutes"), h("input", { type: "number", name: "minutes", min: 1, max: 10080, placeholder: t("tune.as_configured") })),
    h("label", { class: "field" }, t("tune.restarts"), h("input", { type: "number", name: "restarts", min: 0, max: 20, placeholder: t("tune.as_configured") })),
  ];
}

const ACTS = {
  async tune() {
    const form = await ask(t("tune.title"), t("tune.text"), t("tune.yes"), tuneFields());
    if (!form) return;
    const minutes = Number(form.get("minutes")) || null;
    const restarts = form.get("restarts") === "" ? null : Number(form.get("restarts"));
    await command("tune", { mode: form.get("mode"), minutes, restarts }, t("tune.done"));
  },
  pause: () => command("pause", {}, t("pause.done")),
  resume: () => command("resume", {}, t("resume.done")),
  async rollback() {
    if (await ask(t("rollback.title"), t("rollback.text"), t("rollback.yes"))) await command("rollback", { n: 1 }, t("rollback.done"));
  },
  async detach() {
    if (await ask(t("detach.title"), t("detach.text"), t("detach.yes"), [], true)) await command("detach", {}, t("detach.done"));
  },
  approve: (id) => command(`approvals/${encodeURIComponent(id)}`, { answer: "approve" }, t("approve.done")),
  decline: (id) => command(`approvals/${encodeURIComponent(id)}`, { answer: "decline" }, t("decline.done")),
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-act]");
  if (!button) return;
  button.disabled = true;
  await ACTS[button.dataset.act](button.dataset.id);
  button.disabled = false;
});

start({ draw });
