// The lists of the overview: next runs, queues and running jobs.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { atLeast, count, percent } from "../lib/format.js";
import { onJobs, onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { between, duration } from "../lib/time.js";
import { TEXTS } from "../texts/overview.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Spark } from "../parts/sparkline.js";
import { Sign } from "../parts/state-badge.js";
import { Moment, Took, When } from "../parts/relative-time.js";

const NEXT = 7;
const RUNNING = 7;
const QUEUES = 7;

/** A panel with its loading, error and empty states. */
function Part({ title, resource, lead, none, children, class: more = "" }) {
  const { data, problem, isLoading, refresh } = resource;
  const rows = data?.items.length;
  return html`
    <${Panel} title=${title} class=${more} actions=${lead}>
      ${isLoading
        ? html`<${Loading} />`
        : problem && !data
          ? html`<${Trouble} problem=${problem} onRetry=${refresh} />`
          : rows
            ? children
            : html`<p class="calm dim">${none}</p>`}
    </${Panel}>
  `;
}

const All = ({ to, text }) => html`
  <a class="link small" href=${to}>${text}<${Icon} name="arrow-right" class="small" /></a>
`;

export function Next() {
  const next = useResource("/stats/next", { query: { limit: NEXT }, live: onTopics("schedules"), every: 15 });
  return html`
    <${Part}
      title="Next runs"
      resource=${next}
      none=${html`${TEXTS.noNextRuns} <code>@app.task(schedule=every("15m"))</code>`}
      lead=${html`<${All} to=${href("/schedules")} text="Schedules" />`}
    >
      <ol class="glance">
        ${next.data?.items.map(
          (one) => html`
            <li key=${one.schedule}>
              <a href=${href(`/schedules/${part(one.schedule)}`)}>
                <span class="what">
                  <b>${one.schedule}</b>
                  <span class="dim" title=${one.rule}>${one.rule.split(/, on the beat|;/)[0]}</span>
                </span>
                <span class="end two num">
                  <${When} at=${one.due_at} zone=${one.zone} />
                  <span class="dim"><${Moment} at=${one.due_at} zone=${one.zone} /></span>
                </span>
              </a>
            </li>
          `,
        )}
      </ol>
    </${Part}>
  `;
}

export function Running() {
  const running = useResource("/jobs", { query: { state: "running", limit: RUNNING }, live: onJobs, pace: 2 });
  return html`
    <${Part}
      title="Running now"
      resource=${running}
      none="No running jobs."
      lead=${html`<${All} to=${href("/jobs", { q: "state:running" })} text="All running jobs" />`}
    >
      <ol class="glance">
        ${running.data?.items.map(
          (job) => html`
            <li key=${job.id}>
              <a href=${href(job.is_run ? `/runs/${job.id}` : `/jobs/${job.id}`)}>
                <${Sign} state="running" />
                <span class="what">
                  <b>${job.task}</b>
                  <span class="dim">
                    ${job.progress_note || job.queue}
                    ${job.attempt > 1 ? `, attempt ${job.attempt}` : ""}
                  </span>
                </span>
                ${job.progress !== null && html`
                  <span class="how-far" role="img" aria-label="${percent(job.progress)} done">
                    <span class="bar-track" data-tone="run">
                      <i style=${{ width: `${Math.min(100, job.progress * 100)}%` }}></i>
                    </span>
                  </span>
                `}
                <span class="end num small"><${Took} from=${job.started_at} /></span>
              </a>
            </li>
          `,
        )}
      </ol>
    </${Part}>
  `;
}

const IDLE = { due: 0, running: 0, held: 0, at_least: [], oldest_due_at: null, workers: 1, is_paused: false };

/** Queues with current or recent jobs, so that queues do not come and go; at most the busiest. */
function glance(queues, flow) {
  const standing = new Map(queues.map((one) => [one.name, one]));
  const names = [...new Set([...standing.keys(), ...flow.keys()])].sort();
  const all = names.map((name) => standing.get(name) || { ...IDLE, name });
  return all.length > QUEUES ? all.sort((a, b) => b.due + b.running - a.due - a.running) : all;
}

/** @param {{queues: any[] | undefined}} props */
export function Queues({ queues }) {
  const flow = useResource("/stats/queues", { live: onJobs, pace: 10, every: 20 });
  const lately = new Map((flow.data?.items || []).map((one) => [one.name, one]));
  const rows = glance(queues || [], lately);
  return html`
    <${Part}
      title="Queues"
      resource=${{ data: queues && { items: rows }, isLoading: !queues }}
      none="No jobs in any queue."
      lead=${html`<${All} to=${href("/queues")} text="Queues and limits" />`}
    >
      <ol class="glance queues">
        ${rows
          .slice(0, QUEUES)
          .map((one) => html`<${Queue} key=${one.name} one=${one} flow=${lately.get(one.name)} />`)}
      </ol>
      ${rows.length > QUEUES && html`
        <p class="glance-rest"><a class="link" href=${href("/queues")}>${rows.length - QUEUES} more</a></p>
      `}
    </${Part}>
  `;
}

function Queue({ one, flow }) {
  const late = one.oldest_due_at && one.due ? between(one.oldest_due_at) : 0;
  const said = one.is_paused
    ? "paused"
    : !one.workers
      ? "not served by any worker"
      : late > 1
        ? `oldest due ${duration(Math.round(late))}`
        : one.held
          ? `${count(one.held)} held by a limit or a gate`
          : "keeps up";
  const tone = one.is_paused || (!one.workers && one.due) || late > 60 ? "warn" : undefined;
  return html`
    <li>
      <a href=${href("/jobs", { q: word("queue", one.name) })}>
        <span class="what"><b>${one.name}</b><span class=${tone ? "" : "dim"} data-tone=${tone}>${said}</span></span>
        <span class="spark-box">
          ${flow && html`
            <${Spark}
              points=${flow.ended.slice(0, -1)}
              label="Finished jobs of ${one.name} per minute, last ${flow.ended.length - 1} minutes"
              tone="good"
            />
          `}
        </span>
        <span class="end num small">
          <span><b>${atLeast(one.due, one.at_least.includes("due"))}</b> <span class="dim">due</span></span>
          <span><b>${one.running}</b> <span class="dim">running</span></span>
        </span>
      </a>
    </li>
  `;
}
