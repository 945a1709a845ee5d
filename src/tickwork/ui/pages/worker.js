// The page of a worker: running jobs, capabilities and recent jobs.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { bytes, many, percent, shortId } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/workers.js";
import { CopyButton } from "../parts/copy-button.js";
import { Icon } from "../parts/icon.js";
import { Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { Sign, State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { Took, When } from "../parts/relative-time.js";
import { askWorker, Lease, nameOf } from "./workers.js";

const SHOWN = 100;
const LATELY = 20;

/** @param {{params: {id: string}}} props */
export default function Worker({ params }) {
  const {
    data: worker,
    problem,
    isLoading,
    refresh,
  } = useResource(`/workers/${part(params.id)}`, { live: onAny(onTopics("workers"), onJobs), every: 5 });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !worker) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const trail = [{ label: "Workers", href: "#/workers" }];
  return html`
    <${Page}
      title=${html`${nameOf(worker)} <${State} state=${worker.state} />`}
      name=${nameOf(worker)}
      trail=${trail}
      actions=${may("operate") && html`<${Actions} worker=${worker} refresh=${refresh} />`}
      lead=${html`
        <span><b class="num">${worker.running}</b> of ${many(worker.slots, "slot")} busy</span>
        <span>up <${Took} from=${worker.started_at} to=${worker.state === "lost" ? worker.lease_until : null} /></span>
        <span>lease <${Lease} worker=${worker} /></span>
      `}
    >
      ${worker.state === "lost" && html`
        <${Notice} tone="bad" icon="unplug">
          The worker stopped renewing its lease <${When} at=${worker.lease_until} /> and is considered lost. Its jobs
          were queued again, or failed if they had no attempts left.
        </${Notice}>
      `}
      ${worker.state === "quiet" && html`<${Notice} tone="warn" icon="circle-pause">${TEXTS.workerQuiet}</${Notice}>`}
      ${worker.state === "stopping" && html`<${Notice} tone="warn" icon="square">${TEXTS.workerStopping}</${Notice}>`}
      <${Panel} title="Running now"><${Running} jobs=${worker.jobs} /></${Panel}>
      <div class="grid-2">
        <${Panel} title="Details">
          <${Facts}
            items=${[
              ["Host", worker.host],
              ["Process", worker.pid || "remote worker"],
              ["Version", worker.version],
              ["Started", html`<${When} at=${worker.started_at} />`],
              ["Lease", html`<${Lease} worker=${worker} />`],
              ["Labels", worker.labels.length ? html`<${Tags} names=${worker.labels} />` : "none"],
              [
                "Resources",
                Object.keys(worker.resources).length
                  ? html`
                      <${Tags}
                        names=${Object.entries(worker.resources).map(([name, amount]) => `${name} ${amountOf(amount)}`)}
                      />
                    `
                  : "none",
              ],
              ["Queues", worker.queues.length ? html`<${Tags} names=${worker.queues} field="queue" />` : "all"],
              [
                "Id",
                html`
                  <span class="row"><code>${worker.id}</code><${CopyButton} text=${worker.id} label="Copy id" /></span>
                `,
              ],
            ]}
          />
        </${Panel}>
        <${Panel} title=${html`Tasks<span class="count">${worker.tasks.length}</span>`} label="Tasks">
          <div class="inner">
            ${worker.tasks.length
              ? html`<${Tags} names=${worker.tasks} field="task" />`
              : html`<p class="dim">All tasks.</p>`}
          </div>
        </${Panel}>
      </div>
      <${Panel}
        title="Recent jobs"
        actions=${html`<a class="link" href=${href("/jobs", { q: word("worker", worker.id) })}>View all</a>`}
      >
        <${Lately} id=${worker.id} />
      </${Panel}>
    </${Page}>
  `;
}

function Actions({ worker, refresh }) {
  if (worker.state === "lost") return null;
  const run = (what) => () => askWorker(worker, what).then(refresh);
  return html`
    ${worker.asked === "quiet"
      ? html`<button onClick=${run("resume")}><${Icon} name="play" />Resume claiming</button>`
      : html`
          <button disabled=${worker.asked === "stop"} onClick=${run("quiet")}>
            <${Icon} name="pause" />Stop claiming
          </button>
        `}
    <button disabled=${worker.asked === "stop"} onClick=${run("stop")}><${Icon} name="square" />Stop…</button>
  `;
}

function Tags({ names, field }) {
  const shown = names.slice(0, SHOWN);
  return html`
    <span class="row tags">
      ${shown.map((name) =>
        field
          ? html`<a class="tag" key=${name} href=${href("/jobs", { q: word(field, name) })}>${name}</a>`
          : html`<span class="tag" key=${name}>${name}</span>`,
      )}
      ${names.length > SHOWN && html`<span class="dim">and ${names.length - SHOWN} more</span>`}
    </span>
  `;
}

/** The amount of a resource; large amounts as sizes. @param {string} amount */
const amountOf = (amount) => (Number(amount) >= 1e6 ? bytes(Number(amount)) : amount);

const jobHref = (job) => href(`/jobs/${part(job.id)}`);

/** @type {import("../parts/table.js").Column[]} */
const RUNNING = [
  {
    id: "task",
    title: "Job",
    cell: (job) => html`
      <a href=${jobHref(job)}><b>${job.task}</b> <span class="dim mono">${shortId(job.id)}</span></a>
    `,
  },
  { id: "queue", title: "Queue", from: "phone", cell: (job) => html`<span class="tag">${job.queue}</span>` },
  { id: "attempt", title: "Attempt", align: "right", from: "phone", cell: (job) => job.attempt },
  { id: "since", title: "Running for", align: "right", cell: (job) => html`<${Took} from=${job.since} />` },
  { id: "progress", title: "Progress", width: "34%", cell: (job) => html`<${Progress} job=${job} />` },
];

function Progress({ job }) {
  if (job.is_cancel_requested) return html`<${State} state="cancelled" text="cancelling" />`;
  if (job.progress === null) return html`<span class="dim">${job.progress_note || ""}</span>`;
  return html`
    <span class="progress">
      <span
        class="bar-track"
        data-tone="run"
        role="progressbar"
        aria-label=${`Progress of ${job.task}`}
        aria-valuenow=${Math.round(job.progress * 100)}
        aria-valuemin="0"
        aria-valuemax="100"
      >
        <i style=${{ width: `${job.progress * 100}%` }}></i>
      </span>
      <span class="num">${percent(job.progress)}</span>
      <span class="dim clip" data-from="tablet">${job.progress_note}</span>
    </span>
  `;
}

function Running({ jobs }) {
  if (!jobs.length) return html`<p class="dim">No running jobs.</p>`;
  return html`<${Table} label="Running jobs" columns=${RUNNING} rows=${jobs} hrefOf=${jobHref} />`;
}

/** @type {import("../parts/table.js").Column[]} */
const ENDED = [
  {
    id: "task",
    title: "Job",
    cell: (job) => html`
      <span class="row">
        <${Sign} state=${job.state} />
        <a href=${jobHref(job)}><b>${job.task}</b> <span class="dim mono">${shortId(job.id)}</span></a>
      </span>
    `,
  },
  { id: "error", title: "Error", from: "tablet", cell: (job) => html`<span class="clip bad-text">${job.error}</span>` },
  {
    id: "took",
    title: "Took",
    align: "right",
    from: "phone",
    cell: (job) => html`<${Took} from=${job.started_at} to=${job.ended_at} />`,
  },
  { id: "when", title: "Started", align: "right", cell: (job) => html`<${When} at=${job.started_at} />` },
];

function Lately({ id }) {
  const list = useList("/jobs", { query: { worker: id }, live: onJobs, limit: LATELY });
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  if (!list.items.length) return html`<p class="dim">None, or already pruned.</p>`;
  return html`
    ${list.fresh > 0 && html`
      <button class="fresh-bar" onClick=${list.showFresh}>${many(list.fresh, "new job")}</button>
    `}
    <${Table} label="Recent jobs" columns=${ENDED} rows=${list.items.slice(0, LATELY)} hrefOf=${jobHref} />
  `;
}
