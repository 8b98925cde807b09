// The live page's part on a campaign in progress, and the banner of a restart under way.

import { h } from "./dom.js";
import { known, span } from "./format.js";
import { at } from "./server.js";
import { count, t, word } from "./text.js";

// Of a campaign inside another: "screen: race".
export const phases = (text) => (text ?? "").split(": ").map((phase) => word("phase", phase)).join(": ");

export function restart({ restart: now }) {
  if (!now) return null;
  const settings = Object.entries(now.settings ?? {}).map(([name, value]) => `${name} ${value}`).join(", ");
  return h(
    "div",
    { class: "banner restarts", role: "status", "data-key": "restart" },
    h(
      "p",
      {},
      h("b", {}, t("restart.title", { actor: now.actor ?? t("unknown"), phase: word("restart", now.phase), span: span(now.phase_seconds) })),
      h("span", { class: "muted mono" }, settings ? t("restart.settings", { settings }) : t("restart.back")),
      now.line && h("span", { class: "muted" }, now.line),
    ),
    h("span", { class: "muted" }, t("restart.since", { span: span(now.seconds) })),
  );
}

const PHASES = ["look", "calibrate", "race", "confirm", "probation"];
const COLD_PHASES = ["hot", "screen", "alternate", "probation"];

export function campaign(live) {
  const now = live.campaign;
  if (!now) {
    return [h("p", { class: "empty" }, t(live.mode === "observe" ? "campaign.none.observe" : "campaign.none"), " ", h("code", {}, "trimtab tune --mode act")), lastCampaign(live)];
  }
  const all = now.cold ? COLD_PHASES : PHASES;
  const reached = all.indexOf((now.phase ?? "").split(": ")[0]);
  const steps = all.map((name, index) =>
    h(
      "li",
      { class: index < reached ? "past" : index === reached ? "here" : "", "aria-current": index === reached ? "step" : null },
      word("step", name),
    ),
  );
  const spent = known(now.started) && known(live.now) ? Math.max(0, live.now - now.started) : null;
  // Minutes bound each hot campaign: one with restarts takes several times as long.
  const budget = known(now.minutes) && !now.cold ? now.minutes * 60 : null;
  const share = spent !== null && budget ? Math.min(1, spent / budget) : null;
  const serving = now.in_force;
  return [
    h("ol", { class: "steps" }, steps),
    h(
      "p",
      { class: "sofar" },
      [
        now.cold ? coldServing(now.cold) : serving && (known(serving.trial) ? t("campaign.serving", { n: serving.trial }) : t("campaign.serving.incumbent")),
        known(now.trials) && count("trials", now.trials),
        now.cold && t("campaign.cost", { restarts: count("restarts", now.cold.restarts), lost: span(now.cold.lost_minutes * 60) }),
        share !== null && t("campaign.spent", { spent: span(spent), budget: span(budget) }),
      ].filter(Boolean).join(" · "),
    ),
    share !== null && h("div", { class: "meter plain" }, h("i", { style: { width: `${(share * 100).toFixed(1)}%` } })),
    h("p", {}, h("a", { href: at("trials") }, now.id === null ? t("campaign.all") : t("campaign.see", { id: now.id }))),
    known(now.inner) && h("p", {}, h("a", { href: at(`trials/${now.inner}`) }, t("campaign.inner", { id: now.inner }))),
  ];
}

function coldServing(cold) {
  if (cold.restarting) return t("campaign.serving.restarting");
  return known(cold.trial) ? t("campaign.serving", { n: cold.trial }) : t("campaign.serving.incumbent");
}

function lastCampaign({ last_campaign: last }) {
  if (!last) return null;
  return h("p", { class: "last" }, t("campaign.last", { decision: word("decision", last.decision) }), " ", (last.reasons ?? []).at(-1) ?? "");
}
