// A small line of the last quarter of an hour: the strong line over the soft one, zero at the bottom.

import { s } from "./dom.js";
import { known } from "./format.js";

const WIDTH = 240;
const HEIGHT = 44;

// Unknown values break the line: a gap is not a zero.
function path(values, top, points) {
  let text = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (!known(value)) {
      pen = "M";
      return;
    }
    const x = WIDTH - ((values.length - 1 - index) * WIDTH) / (points - 1);
    const y = HEIGHT - 1 - (Math.max(0, value) / top) * (HEIGHT - 4);
    text += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return text;
}

// `limit` is drawn where it is near enough to matter.
export function sparkline(strong, soft, { points, limit = null, label, most = null }) {
  const all = [...strong, ...(soft ?? [])].filter(known);
  const highest = Math.max(...all, 0);
  const near = known(limit) && limit < highest * 2.5;
  const top = most ?? (Math.max(highest * 1.12, near ? limit * 1.08 : 0) || 1);
  const level = near ? HEIGHT - 1 - (limit / top) * (HEIGHT - 4) : null;
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("line", { class: "floor", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    level !== null && s("line", { class: "limit", x1: 0, x2: WIDTH, y1: level, y2: level }),
    soft && s("path", { class: "soft", d: path(soft, top, points) }),
    s("path", { class: "strong", d: path(strong, top, points) }),
  );
}
