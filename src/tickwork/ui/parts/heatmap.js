// A heat map of days, a column per week: the outcomes of a schedule's occurrences on each day.

import { html } from "../vendor/core.js";
import { count } from "../lib/format.js";

const WORDS = {
  ok: "on time",
  late: "late",
  skipped: "not started",
  failed: "failed",
  live: "not finished",
  pruned: "started; pruned",
};
const DAY_MS = 86_400_000;
const MONTH = new Intl.DateTimeFormat("en", { month: "short", timeZone: "UTC" });
const LONG = new Intl.DateTimeFormat("en-GB", {
  weekday: "long",
  day: "numeric",
  month: "long",
  year: "numeric",
  timeZone: "UTC",
});

/** The colour of a day: by its worst outcome. @param {any} day */
function outcomeOf(day) {
  if (!day) return "none";
  if (day.failed) return "failed";
  if (day.skipped) return "skipped";
  if (day.late) return "late";
  return day.ok || day.live ? "ok" : "pruned";
}

/** @param {any} day @param {string} date */
function said(day, date) {
  const counts = day
    ? Object.entries(WORDS)
        .filter(([name]) => day[name])
        .map(([name, word]) => `${count(day[name])} ${word}`)
    : [];
  return `${LONG.format(new Date(date))}: ${counts.join(", ") || "no occurrences"}`;
}

const text = (at) => new Date(at).toISOString().slice(0, 10);

/**
 * @param {{days: {since: string, until: string, items: any[]}, chosen?: string, onChoose: (date: string) => void}}
 *   props
 */
export function HeatMap({ days, chosen, onChoose }) {
  const by = new Map(days.items.map((one) => [one.day, one]));
  const last = Date.parse(days.until);
  const first = Date.parse(days.since) - ((new Date(days.since).getUTCDay() + 6) % 7) * DAY_MS;
  const weeks = [];
  for (let monday = first; monday <= last; monday += 7 * DAY_MS) weeks.push(monday);
  return html`
    <div class="heat" role="group" aria-label="Outcomes of occurrences per day">
      <div class="heat-grid" style=${{ gridTemplateColumns: `28px repeat(${weeks.length}, minmax(0, 22px))` }}>
        <span></span>
        ${weeks.map(
          (monday, at) => html`
            <span class="heat-month">
              ${at === 0 || MONTH.format(monday) !== MONTH.format(weeks[at - 1]) ? MONTH.format(monday) : ""}
            </span>
          `,
        )}
        ${["Mon", "", "Wed", "", "Fri", "", "Sun"].map((name, row) => [
          html`<span class="heat-day">${name}</span>`,
          ...weeks.map((monday) => {
            const at = monday + row * DAY_MS;
            if (at > last || at < Date.parse(days.since)) return html`<span></span>`;
            const date = text(at);
            const day = by.get(date);
            return html`
              <button
                key=${date}
                class="heat-cell"
                data-outcome=${outcomeOf(day)}
                aria-label=${said(day, date)}
                title=${said(day, date)}
                aria-pressed=${date === chosen}
                tabindex=${day ? 0 : -1}
                onClick=${() => onChoose(date)}
              ></button>
            `;
          }),
        ])}
      </div>
      <p class="legend small dim">
        <span><i data-outcome="ok"></i>all on time</span>
        <span><i data-outcome="late"></i>some late</span>
        <span><i data-outcome="skipped"></i>some not started</span>
        <span><i data-outcome="failed"></i>some failed</span>
      </p>
    </div>
  `;
}
