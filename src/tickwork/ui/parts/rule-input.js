// The input for a schedule rule. While the user types, it shows an explanation, the next times, or the position of an
// error.

import { html, useEffect, useState } from "../vendor/core.js";
import { post } from "../lib/api.js";
import { explained, relative } from "../lib/time.js";
import { TEXTS } from "../texts/common.js";
import { Icon } from "./icon.js";

const WAIT_MS = 200;
const SHOWN = 10;

/** The kinds of rules with a text form, and their stored names. */
export const KINDS = {
  cron: { label: "Cron", hint: "0 2 * * 1-5", help: "minute hour day month weekday; also @daily, L, W, #, H" },
  every: { label: "Every", hint: "15m", help: "a duration: 90s, 15m, 6h, 1d" },
  after: { label: "After the last run", hint: "10m", help: TEXTS.delayHint },
  at: { label: "Once", hint: "2026-12-24T18:00:00+01:00", help: "a time with its UTC offset" },
  rrule: { label: "RRULE", hint: "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", help: "an RFC 5545 rule" },
};
const EXPLAINED = ["cron", "every", "rrule"];

/**
 * The explanation of a rule, requested shortly after the last key.
 * @param {{kind: string, text: string, zone: string, name: string}} rule
 */
export function useExplained({ kind, text, zone, name }) {
  const [told, setTold] = useState({ found: /** @type {any} */ (null), problem: /** @type {any} */ (null) });
  useEffect(() => {
    if (!text.trim() || !EXPLAINED.includes(kind)) return setTold({ found: null, problem: null });
    let isGone = false;
    const waits = setTimeout(async () => {
      try {
        const found = await post("/cron/explain", {
          expression: text.trim(),
          tz: zone || "UTC",
          n: SHOWN,
          name: name || "new",
        });
        if (!isGone) setTold({ found, problem: null });
      } catch (problem) {
        if (!isGone) setTold({ found: null, problem });
      }
    }, WAIT_MS);
    return () => void ((isGone = true), clearTimeout(waits));
  }, [kind, text, zone, name]);
  return told;
}

/** @param {{told: {found: any, problem: any}, text: string, zone: string}} props */
export function Explained({ told, text, zone }) {
  if (told.problem) return html`<${Mistake} problem=${told.problem} text=${text} />`;
  if (!told.found) return null;
  return html`
    <div class="cron-told" aria-live="polite">
      <p><${Icon} name="check" /><b>${told.found.explanation}</b></p>
      <${Occurrences} items=${told.found.next} zone=${zone} />
    </div>
  `;
}

function Mistake({ problem, text }) {
  const place = problem.errors?.find((one) => one.start !== undefined && one.start !== null);
  return html`
    <div class="cron-told" role="alert">
      ${place && html`
        <code class="cron-place">
          ${text.slice(0, place.start)}
          <mark>${text.slice(place.start, place.end) || " "}</mark>
          ${text.slice(place.end)}
        </code>
      `}
      <p class="bad-text">${problem.message}</p>
    </div>
  `;
}

/**
 * The next times in the zone of the schedule; days with clock changes are marked.
 * @param {{items: {due_at: string, local: string, clock_change: string | null}[], zone: string}} props
 */
export function Occurrences({ items, zone }) {
  if (!items.length) return html`<p class="dim">No further occurrences.</p>`;
  const end = items.some((one) => one.local.slice(17, 19) !== "00") ? 19 : 16;
  return html`
    <ol class="occurrences">
      ${items.map(
        (one) => html`
          <li key=${one.due_at} title=${explained(one.due_at, zone)}>
            <span class="num">${dayOf(one.local)}</span>
            <span class="num"><b>${one.local.slice(11, end)}</b></span>
            <span class="dim">${isNear(one.due_at) && relative(one.due_at)}</span>
            ${one.clock_change && html`
              <span class="tag" data-tone="warn"><${Icon} name="clock" class="small" />${one.clock_change}</span>
            `}
          </li>
        `,
      )}
    </ol>
  `;
}

const FAR_MS = 60 * 86_400_000;
const isNear = (at) => Date.parse(at) - Date.now() < FAR_MS;
const WEEKDAY = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  timeZone: "UTC",
});

/** The date of a local time, whatever its zone. @param {string} local */
const dayOf = (local) => WEEKDAY.format(new Date(`${local.slice(0, 10)}T00:00:00Z`));
