// The state of a job, run or worker as colour, icon and word together.

import { html } from "../vendor/core.js";
import { Icon } from "./icon.js";

const SIGNS = {
  waiting: ["hourglass", "wait"],
  queued: ["circle-dashed", "queue"],
  due: ["circle-dashed", "queue"],
  delayed: ["clock", "wait"],
  scheduled: ["clock", "wait"],
  retrying: ["rotate-ccw", "retry"],
  running: ["loader-circle", "run"],
  succeeded: ["circle-check", "good"],
  failed: ["circle-x", "bad"],
  timed_out: ["alarm-clock", "bad"],
  lost: ["unplug", "bad"],
  cancelled: ["ban", "off"],
  released: ["undo-2", "off"],
  dropped: ["circle-minus", "off"],
  expired: ["hourglass", "off"],
  skipped: ["skip-forward", "off"],
  upstream_failed: ["circle-slash", "warn"],
  paused: ["circle-pause", "warn"],
  awaiting: ["hand", "warn"],
  quiet: ["circle-pause", "warn"],
  stopping: ["square", "warn"],
  working: ["circle-play", "good"],
  missed: ["circle-alert", "warn"],
  active: ["circle-play", "good"],
  ended: ["flag", "off"],
  troubled: ["triangle-alert", "bad"],
  late: ["circle-alert", "warn"],
  error: ["circle-x", "bad"],
  warning: ["triangle-alert", "warn"],
  info: ["info", "run"],
  live: ["circle-check", "good"],
  revoked: ["ban", "off"],
  accepted: ["circle-check", "good"],
  duplicate: ["repeat", "off"],
  ignored: ["circle-minus", "off"],
  refused: ["circle-x", "bad"],
};

/** The tone of a state: good, bad, warn, run, queue, wait, retry or off. @param {string} state */
export const toneOf = (state) => (SIGNS[state] || ["", "off"])[1];
/** The same for lists: waiting states are muted. @param {string} state */
export const quietToneOf = (state) => (state === "waiting" ? "off" : toneOf(state));
/** @param {string} state */
export const signOf = (state) => (SIGNS[state] || ["circle-dot"])[0];
/** @param {string} state */
export const wordOf = (state) => state.replaceAll("_", " ");

/**
 * The displayed state of a job: a queued job may be delayed or retrying.
 * @param {{state: string, attempt?: number, run_at?: string, failures?: number}} job
 * @param {number} at
 */
export function stateOf(job, at) {
  if (job.state !== "queued") return job.state;
  if (job.failures ?? job.attempt) return "retrying";
  return job.run_at && Date.parse(job.run_at) > at + 1000 ? "delayed" : "queued";
}

/** @param {{state: string, text?: string, quiet?: boolean}} props */
export function State({ state, text, quiet = false }) {
  return html`
    <span class="state ${quiet ? "plain" : ""}" data-tone=${toneOf(state)} data-state=${state}>
      <${Icon} name=${signOf(state)} />
      <span>${text || wordOf(state)}</span>
    </span>
  `;
}

/** Only the icon, with the state as its label. @param {{state: string, label?: string}} props */
export function Sign({ state, label }) {
  return html`
    <span class="sign" data-tone=${toneOf(state)} data-state=${state} title=${label || wordOf(state)}>
      <${Icon} name=${signOf(state)} label=${label || wordOf(state)} />
    </span>
  `;
}
