// The workers page: load, queues and lease of each worker, quiet and stop; and facts about server and store.

import { html } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { duration, now } from "../lib/time.js";
import { TEXTS } from "../texts/workers.js";
import { ask } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";
import { Meter } from "../parts/meter.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { Took, When } from "../parts/relative-time.js";

const CODE = `# shop.py
from tickwork import Tickwork

app = Tickwork()

@app.task
def send_email(to: str) -> None: ...

# and in a shell:  tickwork worker shop.py`;

const SHOWN = 3;

/** The display name of a worker. @param {any} worker */
export const nameOf = (worker) => (worker.pid ? `${worker.host}:${worker.pid}` : worker.host);

/** Send a request to a worker, and report the result. @param {any} worker @param {"quiet"|"stop"|"resume"} what */
export async function askWorker(worker, what) {
  const said = {
    quiet: "stops claiming; running jobs continue",
    stop: "finishes its running jobs and ends",
    resume: "resumes claiming",
  }[what];
  if (
    what === "stop" &&
    !(await ask({
      title: `Stop ${nameOf(worker)}?`,
      text: TEXTS.stopWorkerText(many(worker.running, "job")),
      does: "Stop worker",
      isBad: true,
    }))
  ) {
    return;
  }
  await attempt(() => post(`/workers/${part(worker.id)}/${what}`), TEXTS.workerAsked(nameOf(worker), said));
}

/** The requests that a worker accepts now. @param {any} worker @param {() => void} refresh */
export const askings = (worker, refresh) => {
  if (worker.state === "lost") return [];
  const run = (what) => () => askWorker(worker, what).then(refresh);
  return [
    worker.asked === "quiet"
      ? { label: "Resume claiming", icon: "play", run: run("resume") }
      : { label: "Stop claiming", icon: "pause", run: run("quiet") },
    worker.asked !== "stop" && { label: "Stop worker", icon: "square", isBad: true, run: run("stop") },
  ];
};

/** The first names, and the number of the others. @param {{names: string[], none?: string}} props */
function Names({ names, none = "" }) {
  if (!names.length) return html`<span class="dim">${none}</span>`;
  const rest = names.length - SHOWN;
  return html`
    <span class="row" title=${names.join(", ")}>
      ${names.slice(0, SHOWN).map((name) => html`<span class="tag" key=${name}>${name}</span>`)}
      ${rest > 0 && html`<span class="dim small">+${rest}</span>`}
    </span>
  `;
}

/** The remaining lease of a worker. It is extended with each heartbeat. @param {{worker: any}} props */
export function Lease({ worker }) {
  const left = (Date.parse(worker.lease_until) - now.value) / 1000;
  if (worker.state === "lost" || left < 0) {
    return html`<span class="bad-text">lease expired <${When} at=${worker.lease_until} /></span>`;
  }
  return html`<span class="num lease" title=${TEXTS.leaseHelp}>${duration(Math.floor(left))} left</span>`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { id: "state", title: "State", cell: (one) => html`<${State} state=${one.state} />` },
  {
    id: "host",
    title: "Worker",
    cell: (one) => html`
      <a href=${href(`/workers/${part(one.id)}`)}>
        <b>${one.host}</b>
        ${one.pid > 0 && html` <span class="dim num">${one.pid}</span>`}
      </a>
      ${one.is_remote && html` <span class="tag">remote</span>`}
    `,
  },
  {
    id: "slots",
    title: "Busy",
    align: "right",
    cell: (one) => html`
      <${Meter}
        value=${one.running}
        of=${one.slots}
        tone="run"
        label=${`${one.running} of ${many(one.slots, "slot")} busy`}
      />
    `,
  },
  { id: "queues", title: "Queues", from: "phone", cell: (one) => html`<${Names} names=${one.queues} none="all" />` },
  { id: "offer", title: "Labels", from: "desk", cell: (one) => html`<${Names} names=${one.offer} />` },
  {
    id: "tasks",
    title: "Tasks",
    align: "right",
    from: "desk",
    cell: (one) => html`<span title=${one.tasks.join(", ")}>${one.tasks.length || "any"}</span>`,
  },
  { id: "version", title: "Version", from: "desk", cell: (one) => one.version },
  {
    id: "up",
    title: "Up",
    align: "right",
    from: "tablet",
    cell: (one) => html`<${Took} from=${one.started_at} to=${one.state === "lost" ? one.lease_until : null} />`,
  },
  { id: "lease", title: "Lease", align: "right", from: "tablet", cell: (one) => html`<${Lease} worker=${one} />` },
];

export default function Workers() {
  const { data, problem, isLoading, refresh } = useResource("/workers", {
    live: onAny(onTopics("workers"), onJobs),
    every: 10,
  });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const workers = data.items;
  const alive = workers.filter((one) => one.state !== "lost");
  const sum = (name) => alive.reduce((all, one) => all + one[name], 0);
  const versions = new Set(alive.map((one) => one.version));
  const columns = may("operate")
    ? [
        ...COLUMNS,
        {
          id: "do",
          title: html`<span class="hidden-label">Actions</span>`,
          align: /** @type {const} */ ("right"),
          cell: (one) =>
            one.state !== "lost" && html`
              <${Menu}
                icon="ellipsis"
                title=${`Actions for worker ${nameOf(one)}`}
                class="icon-only"
                align="right"
                items=${askings(one, refresh)}
              />
            `,
        },
      ]
    : COLUMNS;
  const lead =
    workers.length > 0 && html`
      <span><b class="num">${alive.length}</b> ${alive.length === 1 ? "lives" : "live"}</span>
      <span><b class="num">${sum("running")}</b> of ${sum("slots")} slots busy</span>
      ${workers.length > alive.length && html`
        <span class="bad-text">${workers.length - alive.length} lost recently</span>
      `}
    `;
  return html`
    <${Page} title="Workers" lead=${lead}>
      ${versions.size > 1 && html`
        <${Notice} tone="warn">
          Workers have ${versions.size} different versions: ${[...versions].join(", ")}. Is a deployment in progress?
        </${Notice}>
      `}
      <${Panel} label="Workers">
        ${workers.length
          ? html`
              <${Table}
                label="Workers"
                columns=${columns}
                rows=${workers}
                hrefOf=${(one) => href(`/workers/${part(one.id)}`)}
                toneOf=${(one) => (one.state === "lost" ? "bad" : undefined)}
              />
            `
          : html`
              <${Empty} icon="server" title="No workers yet" code=${CODE}>Jobs wait until a worker starts.</${Empty}>
            `}
      </${Panel}>
      <${House} />
    </${Page}>
  `;
}

/** The state of the server and the store. */
function House() {
  const { data } = useResource("/health", { every: 15 });
  if (!data) return null;
  return html`
    <${Panel} title="Server and store">
      ${data.warnings.length > 0 && html`
        <div class="inner stack">
          ${data.warnings.map(
            (one) => html`<${Notice} key=${one} tone="warn" icon="triangle-alert">${one}</${Notice}>`,
          )}
        </div>
      `}
      <${Facts}
        items=${[
          ["Server", `${data.version}, Python ${data.python}, schema ${data.schema_version}`],
          ["Up", duration(data.uptime_s)],
          ["Scheduler lag", data.scheduler_late_s > 0 ? duration(data.scheduler_late_s) : "nothing"],
          ...Object.entries(data.facts).map(([name, value]) => [name[0].toUpperCase() + name.slice(1), value]),
        ]}
      />
    </${Panel}>
  `;
}
