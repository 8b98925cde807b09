// Where a knob's value stands: a track from its floor to its ceiling with a mark for launch and one for now.

import { h } from "./dom.js";
import { knob, known } from "./format.js";
import { t } from "./text.js";

// Token budgets span powers of two, so the track is logarithmic; off (zero) sits at the left end.
function place(value, low, high) {
  if (high <= 1) return high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 1;
  const from = Math.log2(Math.max(low, 1));
  const to = Math.log2(Math.max(high, 2));
  if (to <= from) return 1;
  return Math.min(1, Math.max(0, (Math.log2(Math.max(value, 1)) - from) / (to - from)));
}

const mark = (name, share) => h("i", { class: name, style: { left: `${(share * 100).toFixed(1)}%` } });

export function range(name, now, launch, floor, ceiling) {
  if (!known(ceiling)) return h("span", { class: "unknown" }, t("config.no_ceiling"));
  const low = known(floor) ? floor : 0;
  const label = t("config.track", { low: knob(low), high: knob(ceiling), now: knob(now, name), launch: knob(launch, name) });
  const from = known(launch) ? place(launch, low, ceiling) : null;
  const to = known(now) ? place(now, low, ceiling) : null;
  const moved = from !== null && to !== null && from !== to;
  const stretch = moved && {
    left: `${(Math.min(from, to) * 100).toFixed(1)}%`,
    width: `${(Math.abs(to - from) * 100).toFixed(1)}%`,
  };
  return h(
    "span",
    { class: "track", role: "img", "aria-label": label, "data-tip": label },
    moved && h("i", { class: "moved", style: stretch }),
    from !== null && mark("launch", from),
    to !== null && mark("now", to),
  );
}
