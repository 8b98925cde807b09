// Time runs along blocks: above, which config ran in which order; below, what each pair gained in its block.

import { s } from "./dom.js";
import { change } from "./format.js";
import { ROW } from "./effects.js";
import { count, t, word } from "./text.js";

const CELL = 11;
const TOP = 20;

// Blocks in order with their windows in order, and the phase that their pairs tell. One column is one block, but the
// calibration's single long block, the incumbent over and over, gets a column for each window.
export function blocksOf(campaign) {
  const blocks = new Map();
  const at = (block) => {
    if (!blocks.has(block)) blocks.set(block, { block, windows: [], phase: null });
    return blocks.get(block);
  };
  for (const window of campaign.windows) at(window.block).windows.push(window);
  for (const pair of campaign.pairs) at(pair.block).phase = pair.phase;
  const list = [...blocks.values()].sort((a, b) => a.block - b.block);
  // A block without a pair (broken, or still running) belongs to the phase around it.
  list.forEach((item, index) => {
    item.phase ??= list[index - 1]?.phase ?? list[index + 1]?.phase ?? null;
    item.broken = item.windows.length > 0 && item.windows.some((window) => !window.valid);
  });
  return list.flatMap(spread);
}

function spread(item) {
  if (item.windows.length < 3 || item.windows.some(({ trial }) => trial !== null)) return [item];
  return item.windows.map((window) => ({ ...item, windows: [window], broken: !window.valid }));
}

// Pixels of columns; `of` finds a pair's, given how many pairs of the same block came before it.
export function blockScale(blocks, width) {
  const margin = 6;
  const step = Math.min(26, (width - 2 * margin) / Math.max(1, blocks.length));
  const left = (column) => margin + step * column;
  const columns = new Map();
  blocks.forEach(({ block }, column) => columns.set(block, [...(columns.get(block) ?? []), column]));
  const of = (block, before) => {
    const own = columns.get(block) ?? [0];
    // Over a spread block a pair compares a window with the next one, and is drawn at the latter.
    return own[Math.min(own.length > 1 ? before + 1 : 0, own.length - 1)];
  };
  return { step, left, middle: (column) => left(column) + step / 2, of, width, blocks };
}

function bands(scale, height, labelled) {
  const groups = [];
  scale.blocks.forEach(({ phase }, column) => {
    const last = groups.at(-1);
    if (last && last.phase === phase) last.to = column;
    else groups.push({ phase, from: column, to: column });
  });
  return groups.map(({ phase, from, to }, index) => {
    const x = scale.left(from);
    const right = scale.left(to) + scale.step;
    const name = word("phase", phase);
    return [
      s("rect", { class: index % 2 ? "band odd" : "band", x, y: 0, width: right - x, height }),
      labelled && right - x > name.length * 6.4 && s("text", { class: "phase", x: x + 3, y: 11 }, name),
    ];
  });
}

// The strip: one column a block, first window on top; the incumbent is plain, a candidate bears its number.
export function strip(scale) {
  const most = Math.max(1, ...scale.blocks.map(({ windows }) => windows.length));
  const height = TOP + most * CELL + 2;
  const wide = Math.max(1.5, scale.step - 1.5);
  const columns = scale.blocks.map(({ block, windows, broken, phase }, column) => {
    const order = windows.map(({ trial }) => (trial === null ? t("incumbent") : t("trial.n", { n: trial }))).join(", ");
    const reason = windows.find((window) => !window.valid)?.reason;
    const tip = t("strip.block", { block, phase: word("phase", phase), order }) + (broken ? ` ${t("strip.broken", { reason: reason ?? t("unknown") })}` : "");
    return s(
      "g",
      { class: broken ? "column broken" : "column", "data-block": block, "data-tip": tip },
      s("rect", { class: "hit", x: scale.left(column), y: TOP - 3, width: scale.step, height: height - TOP + 3 }),
      windows.map(({ trial }, index) => {
        const y = TOP + index * CELL;
        const numbered = trial !== null && scale.step >= (trial > 9 ? 13 : 8);
        const kind = trial === null ? "cell incumbent" : numbered ? "cell" : "cell small";
        const cell = s("rect", { class: kind, x: scale.left(column) + 0.75, y, width: wide, height: CELL - 1.5, rx: 1.5, "data-trial": trial ?? "incumbent" });
        if (!numbered) return cell;
        return [cell, s("text", { class: "digit", x: scale.middle(column), y: y + 7.6, "text-anchor": "middle", "data-trial": trial }, trial)];
      }),
    );
  });
  return s(
    "svg",
    { class: "strip", width: scale.width, height, role: "img", "aria-label": t("strip.label", { blocks: count("blocks", scale.blocks.length) }) },
    bands(scale, height, true),
    columns,
  );
}

// What every row shares: the phases, and the blocks that were not scored.
export function blockGround(scale) {
  return s(
    "svg",
    { class: "ground", width: scale.width, "aria-hidden": "true" },
    bands(scale, "100%", false),
    scale.blocks.map((item, column) => item.broken && s("rect", { class: "broken", x: scale.left(column), y: 0, width: scale.step, height: "100%" })),
  );
}

// Bars from zero, better upwards; the confirmation's are solid.
export function blockRow({ pairs, scale, reach, trial, label, minEffect }) {
  const middle = ROW / 2;
  const y = (effect) => middle - Math.max(-1, Math.min(1, Math.log1p(Math.max(-0.99, effect)) / reach)) * (middle - 5);
  const seen = new Map();
  const wide = Math.max(1.5, Math.min(12, scale.step - 2.5));
  const right = scale.blocks.length ? scale.left(scale.blocks.length) : scale.width;
  return s(
    "svg",
    { class: "gains", width: scale.width, height: ROW, role: "img", "aria-label": t("plot.blocks", { name: label, pairs: pairs.length }) },
    minEffect && s("line", { class: "least", x1: 6, x2: right, y1: y(minEffect), y2: y(minEffect) }),
    s("line", { class: "zero", x1: 6, x2: right, y1: middle, y2: middle }),
    pairs.map(({ pair, effect }) => {
      const before = seen.get(pair.block) ?? 0;
      seen.set(pair.block, before + 1);
      const end = y(effect);
      const height = Math.max(1.5, Math.abs(end - middle));
      const top = effect > 0 ? middle - height : middle;
      const tip = t("plot.pair", { block: pair.block, phase: word("pair", pair.phase), effect: change(effect) });
      return s("rect", { class: `gain ${pair.phase} ${effect > 0 ? "up" : "down"}`, x: scale.middle(scale.of(pair.block, before)) - wide / 2, y: top, width: wide, height, "data-block": pair.block, "data-trial": trial, "data-tip": tip });
    }),
  );
}
