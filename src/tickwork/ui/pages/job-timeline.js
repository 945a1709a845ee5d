// The timeline of a job: created, waits, attempts, end.

import { html } from "../vendor/core.js";
import { between, clockOf, duration, moment, now } from "../lib/time.js";
import { signOf, toneOf, wordOf } from "../parts/state-badge.js";
import { Icon } from "../parts/icon.js";

/** @typedef {{kind: "wait"|"delay"|"try"|"backoff", from: string, to: string | null, attempt?: any}} Span */

/** @param {any} job @param {any[]} attempts @param {number} at @returns {Span[]} */
function spansOf(job, attempts, at) {
  /** @type {Span[]} */
  const spans = [];
  let from = job.created_at;
  for (const one of attempts) {
    if (one.started_at > from) spans.push({ kind: spans.length ? "backoff" : "wait", from, to: one.started_at });
    spans.push({ kind: "try", from: one.started_at, to: one.ended_at, attempt: one });
    from = one.ended_at || one.started_at;
  }
  if (job.state === "queued") {
    const isLater = Date.parse(job.run_at) > at;
    if (job.run_at > from) spans.push({ kind: attempts.length ? "backoff" : "delay", from, to: job.run_at });
    if (!isLater) spans.push({ kind: "wait", from: job.run_at > from ? job.run_at : from, to: null });
  } else if (!attempts.length && job.ended_at) spans.push({ kind: "wait", from, to: job.ended_at });
  return spans;
}

/** Widths grow less than durations, so that a second beside a day remains visible. */
const weight = (seconds) => 1 + Math.log10(1 + Math.max(0, seconds) * 20);

const DENSE = 15; // with more spans than this, labels are omitted

const SAID = { wait: "waited", delay: "delayed", backoff: "until next attempt" };

/** @param {{job: any, attempts: any[], onAttempt: (number: number) => void}} props */
export function Timeline({ job, attempts, onAttempt }) {
  const spans = spansOf(job, attempts, now.value);
  const dense = spans.length > DENSE * 3 ? "very" : spans.length > DENSE ? "some" : undefined;
  return html`
    <figure class="timeline" data-dense=${dense} aria-label="Timeline of this job">
      <div class="timeline-strip">
        ${spans.map((span, at) => html`<${One} key=${at} span=${span} onAttempt=${onAttempt} />`)}
      </div>
      <figcaption class="timeline-ends">
        <span><span class="dim">created</span> ${moment(job.created_at)}</span>
        ${job.ended_at
          ? html`
              <span>
                <span class="dim">${wordOf(job.state)}</span>${" "}
                ${moment(job.ended_at)}${" "}
                <span class="dim">after</span>${" "}
                ${duration(between(job.created_at, job.ended_at))}
              </span>
            `
          : html`
              <span class="dim">
                ${job.state === "queued" && Date.parse(job.run_at) > now.value ? `due ${moment(job.run_at)}` : "now"}
              </span>
            `}
      </figcaption>
    </figure>
  `;
}

function One({ span, onAttempt }) {
  const seconds = Math.max(0, between(span.from, span.to));
  const style = { flexGrow: weight(seconds) };
  const told = `${clockOf(span.from)} to ${span.to ? clockOf(span.to) : "now"}`;
  if (span.kind !== "try") {
    return html`
      <span class="span" data-kind=${span.kind} style=${style} title="${SAID[span.kind]} ${duration(seconds)}\n${told}">
        <span>${duration(seconds)}</span>
      </span>
    `;
  }
  const { number, state } = span.attempt;
  return html`
    <button
      class="span"
      data-kind="try"
      data-tone=${toneOf(state)}
      data-state=${state}
      style=${style}
      title="attempt ${number}: ${wordOf(state)} after ${duration(seconds)}\n${told}"
      aria-label="#${number} ${duration(seconds)}, ${wordOf(state)}"
      onClick=${() => onAttempt(number)}
    >
      <${Icon} name=${signOf(state)} />
      <span>#${number}</span>${" "}
      <span class="span-took">${duration(seconds)}</span>
    </button>
  `;
}
