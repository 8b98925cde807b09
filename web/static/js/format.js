// Numbers as a person reads them, always with their unit. Null is unknown, never zero.

import { t } from "./text.js";

const LANGUAGE = document.documentElement.lang || "en";
const GIB = 2 ** 30;

export const known = (value) => typeof value === "number" && Number.isFinite(value);

const digits = new Map();

function fixed(value, places) {
  if (!digits.has(places)) {
    const options = { minimumFractionDigits: places, maximumFractionDigits: places };
    digits.set(places, new Intl.NumberFormat(LANGUAGE, options));
  }
  return digits.get(places).format(value);
}

// Three figures are what an eye takes in: 1.27, 62.4, 402.
function three(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return fixed(value, 0);
  return fixed(value, size >= 10 ? 1 : 2);
}

// The same for a figure that stands still, without the zeros that keep a moving one from jumping.
function brief(value) {
  return brief.format.format(value);
}
brief.format = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 });

// A number never parts from its unit at the end of a line.
const NBSP = "\u00a0";
const join = (number, unit) => (unit ? `${number}${NBSP}${unit}` : number);

export const integer = (value) => (known(value) ? fixed(value, 0) : t("unknown"));

// [number, unit] for figures that are set in two sizes.
export function secondsParts(value, write = three) {
  if (!known(value)) return [t("unknown"), ""];
  if (value !== 0 && Math.abs(value) < 0.001) return [write(value * 1e6), "µs"];
  if (Math.abs(value) < 1) return [write(value * 1e3), "ms"];
  return [write(value), "s"];
}

export const seconds = (value) => join(...secondsParts(value));

export const still = (value) => join(...secondsParts(value, brief));

export function span(value) {
  if (!known(value)) return t("unknown");
  if (value < 60) return join(fixed(value, value < 10 && value % 1 ? 1 : 0), "s");
  const minutes = Math.round(value / 60);
  if (minutes < 60) return join(minutes, "min");
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return t("span.days", { n: Math.round(hours / 24) });
  return minutes % 60 ? `${join(hours, "h")}${NBSP}${join(minutes % 60, "min")}` : join(hours, "h");
}

export function rateParts(value, unit) {
  return known(value) ? [three(value), unit] : [t("unknown"), ""];
}

export const rate = (value, unit) => join(...rateParts(value, unit));

export function gib(value) {
  return known(value) ? join(fixed(value / GIB, 1), "GiB") : t("unknown");
}

export function percent(ratio, places = 0) {
  return known(ratio) ? join(fixed(ratio * 100, places), "%") : t("unknown");
}

// A change with its sign; a true minus sign keeps columns aligned.
export function change(ratio, places = 1) {
  if (!known(ratio)) return t("unknown");
  const text = fixed(Math.abs(ratio) * 100, places);
  const nil = Number((Math.abs(ratio) * 100).toFixed(places)) === 0;
  return join(`${nil ? "±" : ratio > 0 ? "+" : "−"}${text}`, "%");
}

export function interval(effect) {
  if (!effect || !known(effect.low) || !known(effect.high)) return t("interval.unknown");
  return t("interval", { low: change(effect.low), high: change(effect.high) });
}

export function celsius(value) {
  return known(value) ? join(fixed(value, 0), "°C") : t("unknown");
}

export function watts(value) {
  return known(value) ? join(fixed(value, 0), "W") : t("unknown");
}

// A figure whose name says its unit, as the store keeps them.
export function figure(name, value) {
  if (value === null || value === undefined) return t("unknown");
  if (Array.isArray(value)) return value.map((item) => figure("", item)).join(", ");
  if (typeof value === "object") {
    return Object.entries(value).map(([key, item]) => `${key} ${figure(key, item)}`).join(", ");
  }
  if (typeof value !== "number") return String(value);
  if (name.endsWith("minutes")) return span(value * 60);
  if (name.endsWith("_seconds")) return still(value);
  if (name.endsWith("_bytes")) return gib(value);
  if (name.endsWith("_celsius")) return celsius(value);
  if (name.endsWith("_per_second")) return join(brief(value), "/s");
  if (/(effect|_ratio|_share|regression|_sd|_sd_expected)$/.test(name)) return percent(value, 1);
  if (Number.isInteger(value)) return fixed(value, 0);
  return Math.abs(value) < 0.0001 ? value.toExponential(1) : brief(value);
}

// Knob values: exact, for they are typed into a command line. For a cap of prompt tokens zero is none.
export function knob(value, name = "") {
  if (typeof value === "string") return value; // of the host lane, as "split:4"
  if (!known(value)) return t("unknown");
  return value === 0 && name.endsWith("_prefill_tokens") ? t("knob.off") : String(value);
}

const clock = new Intl.DateTimeFormat(LANGUAGE, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(LANGUAGE, { month: "short", day: "numeric" });

export function moment(time) {
  if (!known(time)) return t("unknown");
  const date = new Date(time * 1000);
  return `${day.format(date)}, ${clock.format(date)}`;
}

const exact = new Intl.DateTimeFormat(LANGUAGE, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// To the second, for what follows one another closely.
export const instant = (time) => (known(time) ? exact.format(new Date(time * 1000)) : t("unknown"));

// A figure without a unit, as an expression gives it.
export const plain = (value) => (known(value) ? brief(value) : t("unknown"));

export function ago(time, now) {
  if (!known(time) || !known(now)) return t("unknown");
  return t("ago", { span: span(Math.max(0, now - time)) });
}
