// Instants relative to now, with a tooltip that has the full time; durations that count.

import { html } from "../vendor/core.js";
import { between, duration, explained, moment, now, relative } from "../lib/time.js";

/** @param {{at: string | null | undefined, zone?: string, none?: string}} props */
export function When({ at, zone, none = "" }) {
  if (!at) return html`<span class="dim">${none}</span>`;
  now.value; // it is formatted again every second
  return html`<time datetime=${at} title=${explained(at, zone)}>${relative(at)}</time>`;
}

/**
 * The same as a time of day, with the relative time in the tooltip.
 * @param {{at: string | null | undefined, zone?: string}} props
 */
export function Moment({ at, zone }) {
  if (!at) return null;
  return html`<time datetime=${at} title=${`${relative(at)}\n${explained(at, zone)}`}>${moment(at)}</time>`;
}

/** A duration, or the time so far. @param {{from: string | null, to?: string | null, none?: string}} props */
export function Took({ from, to, none = "" }) {
  if (!from) return html`<span class="dim">${none}</span>`;
  if (!to) now.value;
  return html`<span class="num">${duration(Math.max(0, between(from, to)))}</span>`;
}
