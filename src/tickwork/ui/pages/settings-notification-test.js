// The dialog after a test of a notification: follows the job of each message until it ends.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onJob } from "../lib/live.js";
import { href } from "../lib/router.js";
import { now } from "../lib/time.js";
import { Dialog } from "../parts/dialog.js";
import { State, stateOf } from "../parts/state-badge.js";

const LOOK_S = 2;

/** @param {{name: string, jobs: string[], onClose: () => void}} props */
export function TestAnswer({ name, jobs, onClose }) {
  return html`
    <${Dialog}
      title="Test of ${name}"
      onClose=${onClose}
      footer=${html`<button class="main" onClick=${onClose}>Close</button>`}
    >
      <p>Enqueued ${many(jobs.length, "test message")}. A worker delivers ${jobs.length === 1 ? "it" : "them"}.</p>
      <ul class="tested">${jobs.map((id) => html`<${Sent} key=${id} id=${id} />`)}</ul>
    </${Dialog}>
  `;
}

function Sent({ id }) {
  const { data } = useResource(`/jobs/${part(id)}`, { live: onJob(id), every: LOOK_S });
  if (!data) return null;
  return html`
    <li>
      <${State} state=${stateOf(data, now.value)} />
      <a class="link" href=${href(`/jobs/${part(id)}`)}>${data.task}</a>${" "}
      <span class="dim">in ${data.queue}</span>
      ${data.error && html`<p class="bad-text wrap-anywhere">${data.error}</p>`}
    </li>
  `;
}
