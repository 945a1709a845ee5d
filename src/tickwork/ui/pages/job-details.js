// The details, arguments, result and events of a job.

import { html } from "../vendor/core.js";
import { address, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { count, many } from "../lib/format.js";
import { onJob } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { exactClock, explained } from "../lib/time.js";
import { TEXTS } from "../texts/jobs.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts } from "../parts/page-layout.js";
import { signOf, toneOf } from "../parts/state-badge.js";
import { Tree } from "../parts/json-tree.js";
import { Moment } from "../parts/relative-time.js";

const PRIORITIES = { 2: "high", 5: "normal", 8: "low" };

function Found({ field, value }) {
  return html`
    <a class="link" href=${href("/jobs", { q: word(field, value) })} title="Jobs with ${word(field, value)}">
      ${value}
    </a>
  `;
}

const instant = (at) => at && html`<time datetime=${at} title=${explained(at)}><${Moment} at=${at} /></time>`;

/** @param {{job: any}} props */
export function Details({ job }) {
  const named = (field, value) => value && html`<${Found} field=${field} value=${value} />`;
  return html`
    <div class="inner job-facts">
      <${Facts}
        items=${[
          ["Task", named("task", job.task)],
          ["Queue", named("queue", job.queue)],
          ["Priority", PRIORITIES[job.priority] ? `${job.priority}, ${PRIORITIES[job.priority]}` : job.priority],
          ["Attempts", job.attempt],
          ["Failures", `${count(job.failures)} of ${many(job.options.retries + 1, "failure")}`],
          ["Retry delay", job.options.retries > 0 && `${job.options.backoff}, increasing`],
          ["Timeout", job.options.timeout],
          [
            "Needs",
            Object.entries(job.options.needs)
              .map(([name, value]) => (value === true ? name : `${name}=${value}`))
              .join(", "),
          ],
          [
            "Schedule",
            job.schedule && html`<a class="link" href=${href(`/schedules/${part(job.schedule)}`)}>${job.schedule}</a>`,
          ],
          ["Key", named("key", job.key)],
          [
            "Labels",
            job.labels.length > 0 && job.labels.map((label) => html`<${Found} field="label" value=${label} /> `),
          ],
          ["Collection", named("collection", job.collection)],
          ["Tenant", named("tenant", job.tenant)],
          ["Run", job.run_id && html`<a class="link mono" href=${href(`/runs/${part(job.run_id)}`)}>${job.run_id}</a>`],
          ["Step", job.step],
          ["Created by", named("creator", job.creator)],
          [
            "Parent",
            job.parent_id && html`
              <a class="link mono" href=${href(`/jobs/${part(job.parent_id)}`)}>${job.parent_id}</a>
            `,
          ],
          ["Child jobs", html`<a class="link" href=${href("/jobs", { q: word("parent", job.id) })}>View</a>`],
          [
            "Worker",
            job.worker && html`<a class="link mono" href=${href(`/workers/${part(job.worker)}`)}>${job.worker}</a>`,
          ],
          ["Created", instant(job.created_at)],
          ["Due", instant(job.run_at)],
          ["Started", instant(job.started_at)],
          ["Ended", instant(job.ended_at)],
          ["Deadline", instant(job.expires_at)],
          ["Cancel requested", job.is_cancel_requested && "yes"],
          ["Discarded", job.is_discarded && "yes"],
        ].map(([name, value]) => [name, value === false ? null : value])}
      />
    </div>
  `;
}

/** @param {{job: any}} props */
export function Payload({ job }) {
  return html`<div class="inner"><${Tree} value=${job.args} label="arguments" /></div>`;
}

/** @param {{job: any}} props */
export function Result({ job }) {
  if (job.state !== "succeeded") {
    return html`
      <${Empty} icon="circle-dot" title=${job.ended_at ? "No result" : "No result yet"}>
        ${job.ended_at ? TEXTS.noResultText(job.state) : TEXTS.resultLater}
      </${Empty}>
    `;
  }
  if (job.is_large) {
    return html`
      <${Empty} icon="database" title="Large result">
        Stored outside of the database.${" "}
        <a href=${address(`/jobs/${part(job.id)}/result`).href} download="${job.id}.json">Download JSON</a>
      </${Empty}>
    `;
  }
  if (job.result === null) {
    return html`<${Empty} icon="circle-check" title="No return value">${TEXTS.returnedNone}</${Empty}>`;
  }
  return html`<div class="inner"><${Tree} value=${job.result} label="result" /></div>`;
}

const SAID = {
  created: "Created",
  due: "Due",
  succeeded: "Succeeded",
  failed: "Failed",
  cancelled: "Cancelled",
  dropped: "Dropped by a gate",
  expired: "Expired before a worker started it",
  cancel_requested: "Cancel requested",
  discarded: "Discarded",
  attempt_timed_out: "timed out",
  attempt_lost: "lost with its worker",
  attempt_released: "released",
};

function saidOf(one) {
  if (one.attempt === null) return SAID[one.event] || one.event;
  return `Attempt ${one.attempt} ${SAID[one.event] || one.event.replace("attempt_", "")}`;
}

const SIGNS = { created: "plus", due: "clock", cancel_requested: "ban", discarded: "trash-2", attempt_started: "play" };

/** @param {{job: any}} props */
export function Events({ job }) {
  const { data, problem, isLoading, refresh } = useResource(`/jobs/${part(job.id)}/events`, { live: onJob(job.id) });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  return html`
    <ol class="events">
      ${data.items.map((one, at) => {
        const state = one.event.replace("attempt_", "");
        const detail = one.detail?.trimEnd().split("\n").at(-1);
        return html`
          <li key=${at} data-tone=${SIGNS[one.event] ? "queue" : toneOf(state)}>
            <span class="event-sign"><${Icon} name=${SIGNS[one.event] || signOf(state)} /></span>
            <span class="event-at dim">
              ${one.at ? html`<time datetime=${one.at} title=${explained(one.at)}>${exactClock(one.at)}</time>` : "–"}
            </span>
            <span>${saidOf(one)}</span>
            ${detail && html`
              <span class="dim clip small">${one.event === "attempt_started" ? `on ${detail}` : detail}</span>
            `}
          </li>
        `;
      })}
    </ol>
  `;
}
