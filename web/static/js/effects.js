// One trial's row on the scale of effects: a dot for each pair (race hollow, confirmation filled; older above), and the
// interval with its median. Only a confirmation's interval claims something; a race's is one standard error.

import { s } from "./dom.js";
import { change, interval, known } from "./format.js";
import { t, word } from "./text.js";

export const ROW = 46;

// The lines every row shares: together they run through the whole table.
export function effectGround(scale, minEffect, width) {
  const worth = known(minEffect) ? scale.clamp(minEffect) : null;
  const upright = (name, x) => s("line", { class: name, x1: x, x2: x, y1: 0, y2: "100%" });
  return s(
    "svg",
    { class: "ground", width, "aria-hidden": "true" },
    worth !== null && s("rect", { class: "worth", x: worth, y: 0, width: Math.max(0, width - worth), height: "100%" }),
    scale.ticks.map((tick) => upright("grid", scale.x(tick))),
    worth !== null && upright("least", worth),
    upright("zero", scale.x(0)),
  );
}

export function effectAxis(scale, minEffect, width) {
  const height = 34;
  const worth = known(minEffect) ? scale.clamp(minEffect) : null;
  const near = (tick) => worth !== null && Math.abs(scale.x(tick) - worth) < 30 && tick !== 0;
  const whole = scale.ticks.every((tick) => Math.abs(tick * 100 - Math.round(tick * 100)) < 1e-6);
  return s(
    "svg",
    { class: "axis", width, height, "aria-hidden": "true" },
    worth !== null && s("rect", { class: "worth", x: worth, y: 22, width: Math.max(0, width - worth), height: 12 }),
    scale.ticks.map((tick) => [
      s("line", { class: tick === 0 ? "zero" : "grid", x1: scale.x(tick), x2: scale.x(tick), y1: 26, y2: height }),
      s("text", { x: scale.x(tick), y: 21, "text-anchor": "middle" }, tick === 0 ? "0" : change(tick, whole ? 0 : 1)),
    ].filter((_, index) => index === 0 || !near(tick) || scale.x(tick) > worth + 22)),
    worth !== null && s("line", { class: "least", x1: worth, x2: worth, y1: 12, y2: height }),
    worth !== null && s("text", { class: "least", x: worth + 1, y: 9, "text-anchor": worth > width - 90 ? "end" : "start" }, t("plot.least", { effect: change(minEffect, 0) })),
  );
}

function dot(pair, effect, index, many, scale, trial) {
  const y = many < 2 ? ROW / 2 : 8 + (index * (ROW - 16)) / (many - 1);
  const attributes = {
    class: `pair ${pair.phase}`,
    "data-block": pair.block,
    "data-trial": trial,
    "data-tip": t("plot.pair", { block: pair.block, phase: word("pair", pair.phase), effect: change(effect) }),
  };
  if (scale.inside(effect)) return s("circle", { ...attributes, cx: scale.x(effect), cy: y, r: 3.2 });
  const x = scale.clamp(effect);
  const tip = effect > 0 ? 6 : -6;
  return s("path", { ...attributes, d: `M${x} ${y - 3.5}l${tip} 3.5l${-tip} 3.5z` });
}

function bar(effect, scale) {
  const middle = ROW / 2;
  const median = scale.clamp(effect.median);
  const parts = [];
  if (known(effect.low) && known(effect.high)) {
    const [from, to] = [scale.clamp(effect.low), scale.clamp(effect.high)];
    const claims = effect.phase === "confirm";
    parts.push(s("line", { class: "halo", x1: from, x2: to, y1: middle, y2: middle }));
    parts.push(s("line", { class: claims ? "interval" : "interval error", x1: from, x2: to, y1: middle, y2: middle }));
    if (claims) for (const end of [from, to]) parts.push(s("line", { class: "cap", x1: end, x2: end, y1: middle - 5, y2: middle + 5 }));
  }
  parts.push(s("line", { class: "median", x1: median, x2: median, y1: middle - 11, y2: middle + 11 }));
  return parts;
}

// `pairs` in the order of their blocks, each with its effect.
export function effectRow({ pairs, effect, state, trial, scale, width, label }) {
  const name = effect && known(effect.median)
    ? t("plot.row", { name: label, effect: change(effect.median), interval: interval(effect), pairs: pairs.length })
    : t("plot.row.none", { name: label, pairs: pairs.length });
  return s(
    "svg",
    { class: `effects ${state}`, width, height: ROW, role: "img", "aria-label": name },
    s("g", { class: "dots" }, pairs.map(({ pair, effect: gained }, index) => dot(pair, gained, index, pairs.length, scale, trial))),
    effect && known(effect.median) && bar(effect, scale),
  );
}
