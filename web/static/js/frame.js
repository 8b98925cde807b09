// What every page has: engine and mode in the head, the theme switch, the state of the stream, tooltips, dialogs.

import { $, h, morph } from "./dom.js";
import { order } from "./server.js";
import { follow } from "./stream.js";
import { t, word } from "./text.js";

export const DATA = JSON.parse($("data").textContent);

const THEMES = ["system", "light", "dark"];

function themeSwitch() {
  const button = $("theme");
  const root = document.documentElement;
  const show = () => {
    const name = root.dataset.theme ?? "system";
    button.setAttribute("aria-label", t("theme.is", { name: t(`theme.${name}`) }));
    button.title = t("theme.is", { name: t(`theme.${name}`) });
    button.dataset.now = name;
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("trimtab-theme", next);
    } catch {
      // storage is closed to us: the choice holds for this page only
    }
    show();
  });
  show();
}

export function modeChip(live) {
  const paused = live.paused === true;
  const name = paused ? "paused" : live.mode;
  return h("span", { class: `chip mode-${name ?? "unknown"}`, title: paused ? t("mode.paused.help") : null }, word("mode", name));
}

function showHead(live) {
  const engine = live.engine ?? {};
  const state = engine.reachable === true ? "good" : engine.reachable === false ? "bad" : "unknown";
  morph($("engine"), [
    h("span", { class: `dot ${state}`, role: "img", "aria-label": t(`reachable.${state}`) }),
    h("span", { class: "address" }, engine.url ?? t("engine.unknown")),
    modeChip(live),
  ]);
}

function showStream(name) {
  const badge = $("stream");
  if (badge.dataset.state === name) return;
  badge.dataset.state = name;
  badge.textContent = t(`stream.${name}`);
}

export function say(text, bad = false) {
  const line = $("toast");
  line.textContent = text;
  line.className = bad ? "shown bad" : "shown";
  clearTimeout(say.timer);
  say.timer = setTimeout(() => line.classList.remove("shown"), bad ? 9000 : 4000);
}

// Send an order and tell how it went.
export async function command(path, body, done) {
  try {
    await order(path, body);
    say(done);
  } catch (error) {
    say(error.message, true);
  }
}

// Ask in a dialog; `fields` are nodes inside the form. Resolves to the form's data, or null.
export function ask(title, text, yes, fields = [], danger = false) {
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, title),
    h("p", {}, text),
    fields,
    h(
      "div",
      { class: "buttons" },
      h("button", { value: "", formnovalidate: true }, t("cancel")),
      h("button", { value: "yes", class: danger ? "danger" : "primary" }, yes),
    ),
  );
  const dialog = h("dialog", { "aria-label": title }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes" ? new FormData(form) : null);
      dialog.remove();
    });
  });
}

function tooltips() {
  const box = $("tip");
  const hide = () => {
    box.hidden = true;
  };
  document.addEventListener("pointerover", (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (!target) return hide();
    box.textContent = target.dataset.tip;
    box.hidden = false;
    const place = target.getBoundingClientRect();
    const left = Math.min(Math.max(place.left + place.width / 2 - box.offsetWidth / 2, 8), innerWidth - box.offsetWidth - 8);
    const above = place.top - box.offsetHeight - 8;
    box.style.setProperty("left", `${left}px`);
    box.style.setProperty("top", `${above > 4 ? above : place.bottom + 8}px`);
    return undefined;
  });
  document.addEventListener("scroll", hide, { passive: true, capture: true });
}

// Start the page: `draw(live)` now and each second, `trials` when something new is stored.
export function start({ draw = () => {}, trials = null } = {}) {
  themeSwitch();
  tooltips();
  const show = (live) => {
    showHead(live);
    draw(live);
  };
  show(DATA.live);
  follow({ live: show, trials, state: showStream });
}
