// The scale of effects: from paired gains to "ratio - 1", and from those to pixels.

import { known } from "./format.js";

const expit = (x) => 1 / (1 + Math.exp(-x));
const STEPS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];

// A gain is a difference of scores: of logarithms, or of logits where the objective is a share. A share's gain
// becomes a ratio only against the share the incumbent had.
export function gainToEffect(campaign) {
  const reference = campaign.objective?.is_share ? incumbentShare(campaign) : null;
  if (reference === null) return Math.expm1;
  const score = Math.log(reference / (1 - reference));
  return (gain) => expit(score + gain) / reference - 1;
}

function incumbentShare(campaign) {
  const shares = campaign.windows
    .filter((window) => window.trial === null && window.valid)
    .map((window) => window.metrics?.slo_share)
    .filter((share) => known(share) && share > 0 && share < 1)
    .sort((a, b) => a - b);
  return shares.length ? shares[Math.floor(shares.length / 2)] : null;
}

const quantile = (sorted, q) => sorted[Math.round(q * (sorted.length - 1))];

// All intervals, and all but the most extreme pairs, which are drawn at the edge as arrows.
export function effectDomain(trials, effects, minEffect) {
  const sorted = effects.filter(known).sort((a, b) => a - b);
  const ends = trials.flatMap(({ effect }) => [effect?.low, effect?.high, effect?.median]).filter(known);
  const low = Math.min(-0.05, ...ends, ...(sorted.length ? [quantile(sorted, 0.02)] : []));
  const high = Math.max(0.05, (minEffect ?? 0) * 1.5, ...ends, ...(sorted.length ? [quantile(sorted, 0.98)] : []));
  return [Math.max(-0.9, low), Math.min(9, high)];
}

// Logarithmic, so that a loss of a half and a gain of a double are equally far from zero.
export function effectScale([low, high], width, margin = 14) {
  const from = Math.log1p(low);
  const to = Math.log1p(high);
  const x = (effect) => margin + ((Math.log1p(Math.max(-0.999, effect)) - from) / (to - from)) * (width - 2 * margin);
  const inside = (effect) => effect >= low && effect <= high;
  const clamp = (effect) => x(Math.min(high, Math.max(low, effect)));
  return { x, inside, clamp, low, high, ticks: ticks(low, high, width) };
}

function ticks(low, high, width) {
  const wanted = Math.max(2, width / 72);
  const step = STEPS.find((size) => (high - low) / size <= wanted) ?? 10;
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + 1e-9; n += 1) found.push(n * step);
  return found;
}
