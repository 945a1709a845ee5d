// A bar that shows a used share, with its numbers.

import { html } from "../vendor/core.js";
import { brief } from "../lib/format.js";

const FULL = 1;

/** @param {{value: number, of: number, label: string, tone?: string}} props */
export function Meter({ value, of, label, tone }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  const isFull = of > 0 && value / of >= FULL;
  return html`
    <span class="meter" data-tone=${tone || (isFull ? "warn" : "run")} title=${label}>
      <span class="meter-said"><span class="num">${brief(value)}</span> <span class="dim">of ${brief(of)}</span></span>
      <span class="bar-track" aria-hidden="true"><i style=${{ width: `${share * 100}%` }}></i></span>
    </span>
  `;
}
