// Talking to the daemon: relative addresses only, so that a proxy's sub-path survives.

import { t } from "./text.js";

const UP = document.documentElement.dataset.up ?? "./";

export const at = (path) => UP + path;

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const detail = typeof body.detail === "string" ? body.detail : t("server.strange", { status: response.status });
  throw new Error(response.status === 401 ? t("server.signed_out") : detail);
}

export async function read(path) {
  return answer(await fetch(at(`api/v1/${path}`), { headers: { accept: "application/json" } }));
}

export async function order(path, body = {}) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  return answer(await fetch(at(`api/v1/${path}`), { method: "POST", headers, body: JSON.stringify(body) }));
}
