// What waits for a person's yes or no, wherever it is shown.

import { h } from "./dom.js";
import { command } from "./frame.js";
import { t } from "./text.js";

// The runs' questions; `of` picks those of one run.
export function answers(live, of = () => true) {
  return (live.approvals ?? [])
    .filter((one) => one.kind === "playbook" && of(one))
    .map((one) =>
      h(
        "div",
        { class: "banner asks", role: "status", "data-key": `ask-${one.id}` },
        h("p", {}, h("b", {}, one.text ?? t("pending.text"))),
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", class: "primary", "data-answer": "approve", "data-id": one.id }, t("act.approve")),
          h("button", { type: "button", "data-answer": "decline", "data-id": one.id }, t("act.decline")),
        ),
      ),
    );
}

export function listen() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-answer]");
    if (!button) return;
    button.disabled = true;
    const { answer, id } = button.dataset;
    await command(`approvals/${id}`, { answer }, t(answer === "approve" ? "approve.done" : "decline.done"));
    button.disabled = false;
  });
}
