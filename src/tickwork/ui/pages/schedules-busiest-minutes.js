// The next 24 hours of all schedules: the number of occurrences per minute, and the next occurrences.

import { html, useState } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { count, many } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { href } from "../lib/router.js";
import { minuteOf } from "../lib/time.js";
import { TEXTS } from "../texts/schedules.js";
import { Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { When } from "../parts/relative-time.js";

const MINUTE_MS = 60_000;
const PER_ROW = 60;
const CROWDED = 5;

export function Density() {
  const { data, problem, isLoading, refresh } = useResource("/density", { live: onTopics("schedules"), every: 60 });
  const next = useResource("/stats/next", { query: { limit: 50 }, live: onTopics("schedules"), every: 30 });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const all = data.minutes.reduce((sum, one) => sum + one, 0);
  return html`
    <div class="grid-2 density-page">
      <${Panel}
        title="Busiest minutes"
        actions=${html`
          <span class="dim small">${many(all, "occurrence")} of ${many(data.schedules, "schedule")}</span>
        `}
      >
        <div class="inner stack">
          ${data.is_partial && html`<${Notice} tone="warn" icon="triangle-alert">${TEXTS.moreSchedules}</${Notice}>`}
          <${Strip} start=${data.start} minutes=${data.minutes} />
          <${Crowded} start=${data.start} minutes=${data.minutes} />
        </div>
      </${Panel}>
      <${Panel} title="Next occurrences">
        ${next.data?.items.length
          ? html`
              <ol class="agenda">
                ${next.data.items.map(
                  (one) => html`
                    <li key=${one.schedule}>
                      <a href=${href(`/schedules/${part(one.schedule)}`)}>
                        <span class="num">${minuteOf(one.due_at)}</span>
                        <b class="clip">${one.schedule}</b>
                        <span class="dim clip" title=${one.rule}>${one.target}</span>
                        <span class="dim"><${When} at=${one.due_at} zone=${one.zone} /></span>
                      </a>
                    </li>
                  `,
                )}
              </ol>
            `
          : html`<p class="dim">No occurrences.</p>`}
      </${Panel}>
    </div>
  `;
}

function Strip({ start, minutes }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const begin = Date.parse(start);
  const most = Math.max(1, ...minutes);
  const least = Math.min(most, ...minutes.filter((number) => number > 0));
  const hours = Array.from({ length: 24 }, (_, hour) => hour);
  const level = (number) =>
    number === 0 ? 0 : most === least ? 1 : 1 + Math.round((3 * (number - least)) / (most - least));
  return html`
    <div class="density" role="img" aria-label=${TEXTS.densityLabel(most)} onMouseLeave=${() => setAt(null)}>
      <p class="small dim density-said">
        ${at === null
          ? html`Each row is an hour, each cell a minute. Most in one minute: <b>${count(most)}</b>`
          : html`<b class="num">${minuteOf(begin + at * MINUTE_MS)}</b> ${many(minutes[at], "occurrence")}`}
      </p>
      ${hours.map(
        (hour) => html`
          <div class="density-row" key=${hour}>
            <span class="num dim">${minuteOf(begin + hour * PER_ROW * MINUTE_MS)}</span>
            <div onMouseMove=${(event) => event.target.dataset.at && setAt(Number(event.target.dataset.at))}>
              ${minutes
                .slice(hour * PER_ROW, (hour + 1) * PER_ROW)
                .map((number, minute) => html`<i data-level=${level(number)} data-at=${hour * PER_ROW + minute}></i>`)}
            </div>
          </div>
        `,
      )}
    </div>
  `;
}

function Crowded({ start, minutes }) {
  const found = minutes
    .map((number, at) => ({ number, at }))
    .filter((one) => one.number > 1)
    .sort((a, b) => b.number - a.number || a.at - b.at)
    .slice(0, CROWDED);
  if (!found.length) return html`<p class="dim">No minute has more than one.</p>`;
  return html`
    <p>
      Busiest:${" "}
      ${found.map(
        (one, place) => html`
          ${place > 0 && ", "}<b class="num">${minuteOf(Date.parse(start) + one.at * MINUTE_MS)}</b> (
          ${count(one.number)})
        `,
      )}
      . <span class="dim">Spread them with <code>H</code> in cron, or with jitter.</span>
    </p>
  `;
}
