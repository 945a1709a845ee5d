// The row of current metrics on the overview, each with an explanation and a link.

import { html } from "../vendor/core.js";
import { brief, percent } from "../lib/format.js";
import { href } from "../lib/router.js";
import { between, duration, now } from "../lib/time.js";
import { TEXTS } from "../texts/overview.js";

/**
 * @typedef {{id: string, label: string, value: any, unit?: string, note?: any, says: string, href: string, tone?:
 *   string}} Figure
 */

const LATE_S = 60;
const VERY_LATE_S = 600;
const MANY_FAIL = 0.05;

/** Jobs per minute, with a fraction for small numbers. @param {number} jobs @param {number} seconds */
const rate = (jobs, seconds) => {
  const each = seconds > 0 ? (jobs * 60) / seconds : 0;
  return each > 0 && each < 9.95 ? String(Number(each.toFixed(1))) : brief(Math.round(each));
};
const share = (point) => (point.succeeded + point.failed ? point.failed / (point.succeeded + point.failed) : null);
const span = (seconds) => (seconds === null ? "–" : duration(seconds));

/** @param {any} series @param {string} range @returns {Figure[]} */
function flowing(series, range) {
  const { recent, total } = series;
  const recentS = Math.max(1, (Date.parse(series.known_until) - Date.parse(recent.at)) / 1000);
  const lately = `the last ${Math.round(recentS / 60)} minutes`;
  const whole = (value) => html`${value} <span>in ${range}</span>`;
  return [
    {
      id: "enqueued",
      label: "Enqueued",
      value: rate(recent.enqueued, recentS),
      unit: "/min",
      note: whole(brief(total.enqueued)),
      href: href("/jobs"),
      says: TEXTS.enqueuedHelp(lately),
    },
    {
      id: "succeeded",
      label: "Succeeded",
      value: rate(recent.succeeded, recentS),
      unit: "/min",
      note: whole(brief(total.succeeded)),
      href: href("/jobs", { q: "state:succeeded" }),
      says: TEXTS.succeededHelp(lately),
    },
    {
      id: "failed",
      label: "Failed",
      value: share(recent) === null ? "–" : percent(share(recent)),
      tone: share(recent) >= MANY_FAIL ? "bad" : undefined,
      note: whole(brief(total.failed)),
      href: href("/jobs", { q: "state:failed" }),
      says: TEXTS.failedHelp(lately),
    },
    {
      id: "wait",
      label: "p95 wait",
      value: span(recent.wait.p95),
      note: whole(span(total.wait.p95)),
      href: href("/queues"),
      says: TEXTS.waitHelp(lately),
    },
    {
      id: "run",
      label: "p95 run",
      value: span(recent.run.p95),
      note: whole(span(total.run.p95)),
      href: href("/jobs", { q: "state:running" }),
      says: TEXTS.runHelp(lately),
    },
  ];
}

/** @param {any} stats @returns {Figure[]} */
function standing(stats) {
  const due = stats.queues
    .filter((one) => one.oldest_due_at && one.due && !one.is_paused)
    .sort((a, b) => Date.parse(a.oldest_due_at) - Date.parse(b.oldest_due_at))[0];
  const late = due ? Math.max(0, between(due.oldest_due_at)) : 0;
  now.value; // it grows every second
  return [
    {
      id: "oldest",
      label: "Oldest due",
      value: due ? duration(Math.round(late)) : "0 s",
      tone: late > VERY_LATE_S ? "bad" : late > LATE_S ? "warn" : undefined,
      note: html`${brief(stats.due)}${stats.is_bounded ? "+" : ""} <span>due</span>`,
      href: href("/queues"),
      says: due ? TEXTS.oldestDueHelp(due.name) : TEXTS.noneDueHelp,
    },
    {
      id: "running",
      label: "Running",
      value: brief(stats.running),
      unit: `of ${brief(stats.slots)}`,
      note: html`${stats.slots ? percent(Math.min(1, stats.running / stats.slots)) : "–"} <span>of slots</span>`,
      href: href("/jobs", { q: "state:running" }),
      says: TEXTS.runningHelp,
    },
    {
      id: "workers",
      label: "Workers",
      value: brief(stats.workers),
      tone: !stats.workers && stats.due ? "bad" : undefined,
      note: html`${brief(stats.slots)} <span>slots</span>`,
      href: href("/workers"),
      says: stats.workers ? TEXTS.workersHelp : TEXTS.noWorkersHelp,
    },
  ];
}

/** @param {{stats: any, series: any, range: string}} props */
export function Figures({ stats, series, range }) {
  const figures = [...(series ? flowing(series, range) : []), ...(stats ? standing(stats) : [])];
  return html`
    <ul class="figures panel" aria-label="Figures">
      ${figures.map(
        (one) => html`
          <li key=${one.id} data-figure=${one.id}>
            <a href=${one.href} aria-describedby="says-${one.id}" data-tone=${one.tone}>
              <span class="name">${one.label}</span>
              <strong class="num">${one.value}${one.unit && html`<small>${one.unit}</small>`}</strong>
              <span class="note num">${one.note}</span>
            </a>
            <p id="says-${one.id}" class="says" role="tooltip">${one.says}</p>
          </li>
        `,
      )}
    </ul>
  `;
}
