// The overview page. Its top is loaded first, in three requests; the parts below follow independently.

import { html, useState } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { place, setQuery } from "../lib/router.js";
import { TEXTS } from "../texts/overview.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Page } from "../parts/page-layout.js";
import { Attention } from "./overview-attention.js";
import { Charts } from "./overview-charts.js";
import { Failures } from "./overview-failures.js";
import { Figures } from "./overview-metrics.js";
import { Next, Queues, Running } from "./overview-lists.js";

export const RANGES = ["1h", "6h", "24h", "7d"];
const SAID = { "1h": "the last hour", "6h": "the last 6 hours", "24h": "the last 24 hours", "7d": "the last 7 days" };
const PACE_S = { "1h": 5, "6h": 15, "24h": 30, "7d": 60 };

const CODE = `# shop.py
from tickwork import Tickwork

app = Tickwork()

@app.task(retries=5)
def send_email(to: str) -> str:
    return f"sent to {to}"

# In a shell:
#   tickwork dev shop.py
#   tickwork enqueue send_email to=ada@example.org --wait`;

/** The time range in the URL. */
const chosen = () => (RANGES.includes(place.value.query.range) ? place.value.query.range : RANGES[0]);

function Range() {
  const range = chosen();
  return html`
    <div class="choice segments" role="group" aria-label="Time range">
      ${RANGES.map(
        (one) => html`
          <button
            key=${one}
            aria-pressed=${one === range}
            title=${SAID[one]}
            onClick=${() => setQuery({ range: one === RANGES[0] ? undefined : one }, { push: true })}
          >
            ${one}
          </button>
        `,
      )}
    </div>
  `;
}

/** Whether the store has never had a job. */
function useIsNew(stats, series) {
  const isQuiet =
    Boolean(stats.data && series.data) &&
    !stats.data.queues.length &&
    !stats.data.dead &&
    series.data.buckets.every((one) => !one.enqueued && !one.started);
  const [wasUsed, setUsed] = useState(false);
  const any = useResource(isQuiet && !wasUsed ? "/jobs" : null, { query: { limit: 1 }, live: onJobs });
  if (any.data?.items.length && !wasUsed) setUsed(true);
  return isQuiet && !wasUsed && any.data?.items.length === 0;
}

export default function Overview() {
  const range = chosen();
  const stats = useResource("/stats", { live: onAny(onJobs, onTopics("workers", "gates")), pace: 2, every: 15 });
  const series = useResource("/stats/series", {
    query: { range },
    live: onJobs,
    pace: PACE_S[range],
    every: PACE_S[range] * 2,
  });
  const attention = useResource("/stats/attention", {
    live: onAny(onJobs, onTopics("schedules", "workers", "gates", "limits")),
    pace: 5,
    every: 15,
  });
  const isNew = useIsNew(stats, series);
  const isSeen = Boolean((stats.data || stats.problem) && (series.data || series.problem));
  if (stats.isLoading && series.isLoading) return html`<${Loading} />`;
  if (stats.problem && !stats.data) return html`<${Trouble} problem=${stats.problem} onRetry=${stats.refresh} />`;
  if (isNew) {
    return html`
      <${Page} title="Overview">
        <section class="panel" aria-label="Your first job">
          <${Empty} icon="zap" title="Create your first job" code=${CODE}>${TEXTS.noJobsYet}</${Empty}>
        </section>
      </${Page}>
    `;
  }
  return html`
    <${Page} title="Overview" lead=${SAID[range]} actions=${html`<${Range} />`}>
      <div class="overview">
        <${Figures} stats=${stats.data} series=${series.data} range=${range} />
        <${Charts} series=${series} />
        <${Attention} attention=${attention} />
        ${isSeen && html`<${Next} /><${Failures} /><${Queues} queues=${stats.data?.queues} /><${Running} />`}
      </div>
    </${Page}>
  `;
}
