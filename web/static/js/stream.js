// The event stream. It sleeps with a hidden tab: browsers allow few connections to one server.

import { at } from "./server.js";

const STALE_MS = 5000;

// Calls `live(data)` each second, `trials(data)` when something new is stored, `state(name)` with
// "live", "waiting" or "stale".
export function follow({ live, trials, state }) {
  let source = null;
  let last = 0;

  function open() {
    source = new EventSource(at("api/v1/events"));
    source.addEventListener("live", (event) => {
      last = Date.now();
      state("live");
      live(JSON.parse(event.data));
    });
    source.addEventListener("trials", (event) => trials?.(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      state("stale");
      // A refusal (signed out, say) ends it for good; a lost connection is retried by the browser itself.
      if (source?.readyState === EventSource.CLOSED) source = null;
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!source) {
      open();
      trials?.({ campaign: null });
    }
  });
  window.addEventListener("pagehide", close);
  setInterval(() => {
    if (source && last && Date.now() - last > STALE_MS) state("stale");
  }, 1000);
  state("waiting");
  if (!document.hidden) open();
}
