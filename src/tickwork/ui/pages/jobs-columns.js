// The columns of job lists, and which of them this browser shows.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { percent, shortId } from "../lib/format.js";
import { pageSize, remembered } from "../lib/browser-prefs.js";
import { href } from "../lib/router.js";
import { now } from "../lib/time.js";
import { Menu } from "../parts/menu.js";
import { State, stateOf } from "../parts/state-badge.js";
import { Took, When } from "../parts/relative-time.js";

/** The state of a job in the terms of the list. @param {any} job */
export function shownState(job) {
  const state = stateOf(job, now.value);
  return state === "queued" ? "due" : state;
}

export const jobHref = (job) => href(job.is_run ? `/runs/${part(job.id)}` : `/jobs/${part(job.id)}`);

const LOUD = new Set(["running", "failed", "retrying"]); // highlight matches of the query

/** How long a job waited after it was due, or has waited so far. */
function Wait({ job }) {
  if (job.state === "queued" && Date.parse(job.run_at) > now.value) {
    return html`<span class="dim"><${When} at=${job.run_at} /></span>`;
  }
  if (job.state === "queued") return html`<${Took} from=${job.run_at} />`;
  return job.started_at
    ? html`<${Took} from=${job.run_at < job.started_at ? job.run_at : job.started_at} to=${job.started_at} />`
    : null;
}

function Tries({ job }) {
  if (!job.attempt) return html`<span class="dim">–</span>`;
  return html`
    <span class="num">${job.attempt}</span>
    ${job.retries > 0 && job.attempt <= job.retries + 1 && html`<span class="dim num"> of ${job.retries + 1}</span>`}
  `;
}

/** The progress of a running job, if it reports it. @param {{job: any}} props */
export function Progress({ job }) {
  const share = Math.max(0, Math.min(1, job.progress));
  return html`
    <span class="progress" data-tone="run">
      <span
        class="bar-track"
        role="progressbar"
        aria-label="Progress"
        aria-valuenow=${Math.round(share * 100)}
        aria-valuemin="0"
        aria-valuemax="100"
      >
        <i style=${{ width: `${share * 100}%` }}></i>
      </span>
      <span class="num">${percent(share)}</span>
      ${job.progress_note && html`<span class="dim clip">${job.progress_note}</span>`}
    </span>
  `;
}

/** The progress of a job, or its error. */
function Note({ job }) {
  if (job.state === "running" && job.progress !== null) return html`<${Progress} job=${job} />`;
  if (job.error) {
    return html`<span class="clip note-error" title=${job.error}><${ErrorLine} text=${job.error} /></span>`;
  }
  return null;
}

/** The last line of an error, with its type highlighted. @param {{text: string}} props */
export function ErrorLine({ text }) {
  const kind = /^[\w.]*[A-Z]\w*(?=:|$)/.exec(text)?.[0];
  return kind ? html`<b title=${kind}>${kind.split(".").at(-1)}</b>${text.slice(kind.length)}` : text;
}

function Name({ job }) {
  return html`
    <div class="job-name">
      <a href=${jobHref(job)}><b>${job.task}</b></a>
      ${job.step && job.step !== job.task && html`<span class="tag" title="Step of a run">${job.step}</span>`}
      ${job.key && html`<span class="tag" title="Key">${job.key}</span>`}
      <span class="mono dim job-short" title=${job.id}>${shortId(job.id)}</span>
      <div class="only-narrow small">
        <span class="dim">
          <${When} at=${job.ended_at || job.started_at || job.created_at} /> · ${job.queue}
          ${job.attempt > 1 ? ` · attempt ${job.attempt}` : ""}
        </span>
        <${Note} job=${job} />
      </div>
    </div>
  `;
}

const right = /** @type {const} */ ("right");
const [phone, tablet, desk] = /** @type {const} */ (["phone", "tablet", "desk"]);

/** @type {(import("../parts/table.js").Column & {isExtra?: boolean})[]} */
export const COLUMNS = [
  {
    id: "state",
    title: "State",
    cell: (job) => html`<${State} state=${shownState(job)} quiet=${!LOUD.has(shownState(job))} />`,
  },
  { id: "task", title: "Job", cell: (job) => html`<${Name} job=${job} />` },
  { id: "queue", title: "Queue", from: phone, cell: (job) => job.queue },
  { id: "priority", title: "Priority", align: right, from: tablet, isExtra: true, cell: (job) => job.priority },
  {
    id: "labels",
    title: "Labels",
    from: tablet,
    isExtra: true,
    cell: (job) => job.labels.map((label) => html`<span class="tag">${label}</span> `),
  },
  { id: "attempt", title: "Attempt", align: right, from: phone, cell: (job) => html`<${Tries} job=${job} />` },
  { id: "created", title: "Created", align: right, from: phone, cell: (job) => html`<${When} at=${job.created_at} />` },
  {
    id: "due",
    title: "Due",
    align: right,
    from: tablet,
    isExtra: true,
    cell: (job) => html`<${When} at=${job.run_at} />`,
  },
  {
    id: "ended",
    title: "Ended",
    align: right,
    from: tablet,
    isExtra: true,
    cell: (job) => html`<${When} at=${job.ended_at} />`,
  },
  { id: "wait", title: "Waited", align: right, from: tablet, cell: (job) => html`<${Wait} job=${job} />` },
  {
    id: "run",
    title: "Ran",
    align: right,
    from: tablet,
    cell: (job) => html`
      <${Took} from=${job.started_at} to=${job.ended_at || (job.state === "running" ? null : job.started_at)} />
    `,
  },
  {
    id: "worker",
    title: "Worker",
    from: desk,
    isExtra: true,
    cell: (job) =>
      job.worker && html`<a class="mono" href=${href(`/workers/${part(job.worker)}`)}>${shortId(job.worker)}</a>`,
  },
  { id: "note", title: "Error or progress", from: phone, cell: (job) => html`<${Note} job=${job} />` },
];

const chosen = remembered(
  "job-columns",
  COLUMNS.filter((one) => !one.isExtra).map((one) => one.id),
);
const FIXED = ["state", "task"];
const SIZES = [25, 50, 100, 200];

/** The visible columns. */
export const shownColumns = () => COLUMNS.filter((one) => FIXED.includes(one.id) || chosen.value.includes(one.id));

const toggled = (id) =>
  (chosen.value = chosen.value.includes(id) ? chosen.value.filter((one) => one !== id) : [...chosen.value, id]);

export function ColumnsMenu() {
  const columns = COLUMNS.filter((one) => !FIXED.includes(one.id)).map((one) => ({
    label: String(one.title),
    isOn: chosen.value.includes(one.id),
    run: () => toggled(one.id),
  }));
  const sizes = SIZES.map((size) => ({
    label: `${size} rows at a time`,
    isOn: pageSize.value === size,
    run: () => (pageSize.value = size),
  }));
  return html`<${Menu} icon="columns-3" label="Columns" align="right" items=${[...columns, "line", ...sizes]} />`;
}
