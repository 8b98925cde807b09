// The scale of effects: from paired gains to "ratio - 1", and from those to pixels.

import { known } from "./format.js";

const expit = (x) => 1 / (1 + Math.exp(-x));
const STEPS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];

// A gain is a difference of scores: of logarithms, or of logits where the objective is a share. A share's gain
// becomes a ratio only against the share the incumbent had.
export function gainToEffect(campaign) {
  const reference = incumbentShare(campaign);
  if (reference === null) return Math.expm1;
  const score = Math.log(reference / (1 - reference));
  return (gain) => expit(score + gain) / reference - 1;
}

function incumbentShare(campaign) {
  if (!campaign.objective?.metrics?.includes("slo_share")) return null;
  const share = campaign.calibration?.incumbent;
  return known(share) && share > 0 && share < 1 ? share : null;
}

// The smallest effect worth having. A share near one cannot grow by a fixed ratio: half of the misses gone is enough.
export function leastEffect(campaign) {
  const least = campaign.settings?.min_effect;
  if (!known(least)) return null;
  const share = incumbentShare(campaign);
  return share === null ? least : Math.min(least, (1 - share) / 2 / share);
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// What is known of a trial: its judged effect, else the median of the pairs so far, which claims nothing.
export function effectOf(trial, pairs) {
  const confirmed = pairs.filter(({ pair }) => pair.phase === "confirm");
  if (known(trial.effect?.median) && !(trial.state === "confirming" && confirmed.length)) return trial.effect;
  const counting = confirmed.length ? confirmed : pairs;
  if (!counting.length) return null;
  return { median: median(counting.map(({ effect }) => effect)), low: null, high: null, pairs: counting.length, phase: "so_far" };
}

const quantile = (sorted, q) => sorted[Math.round(q * (sorted.length - 1))];

// All intervals, and all but the most extreme pairs, which are drawn at the edge as arrows.
export function effectDomain(judged, effects, minEffect) {
  const sorted = effects.filter(known).sort((a, b) => a - b);
  const ends = judged.flatMap((effect) => [effect?.low, effect?.high, effect?.median]).filter(known);
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
