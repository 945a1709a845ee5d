// The table of queues: jobs, throughput, workers and actions of each.

import { html } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { atLeast, brief, count, many } from "../lib/format.js";
import { word } from "../lib/query.js";
import { go, href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { duration } from "../lib/time.js";
import { TEXTS } from "../texts/queues.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Meter } from "../parts/meter.js";
import { Empty } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Spark } from "../parts/sparkline.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { Took, When } from "../parts/relative-time.js";

const CODE = `from tickwork import Tickwork, concurrency

app = Tickwork()
app.queue("mail", limits=[concurrency(5)])

@app.task(queue="mail")
def send_email(to: str) -> None: ...

send_email.enqueue(to="ada@example.org")`;

const LONG_S = 60;

/**
 * @param {{queues: any[], limits: any[], gates: any[], refresh: () => void, open: (what: any) => void, begun:
 *   (operation: any, total: number) => void}} props
 */
export function Queues({ queues, limits, gates, refresh, open, begun }) {
  const { data } = useResource("/stats/queues", { every: 30 });
  const figures = new Map((data?.items || []).map((one) => [one.name, one]));
  if (!queues.length) {
    return html`
      <${Panel} label="Queues">
        <${Empty} icon="layers-2" title="No jobs in any queue" code=${CODE}>${TEXTS.noQueuesText}</${Empty}>
      </${Panel}>
    `;
  }
  const rows = queues.map((one) => ({
    ...one,
    limits: limits.filter((limit) => limit.rule && limit.name.startsWith(`queue:${one.name}#`)),
    gates: gates.filter(
      (gate) => gate.queue === one.name && !gate.task && !gate.tenant && !gate.collection && !gate.label,
    ),
    figures: figures.get(one.name),
  }));
  const columns = [...COLUMNS, ...(figures.size ? FIGURES : []), ...SERVED];
  const all = may("operate")
    ? [
        ...columns,
        {
          id: "do",
          title: html`<span class="hidden-label">Actions</span>`,
          align: /** @type {const} */ ("right"),
          cell: (row) => html`<${Actions} queue=${row} refresh=${refresh} open=${open} begun=${begun} />`,
        },
      ]
    : columns;
  return html`
    <${Panel} label="Queues">
      <${Table} label="Queues" columns=${all} rows=${rows} idOf=${(row) => row.name} hrefOf=${(row) => jobs(row)} />
    </${Panel}>
  `;
}

const jobs = (queue, state) => href("/jobs", { q: `${word("queue", queue.name)}${state ? ` state:${state}` : ""}` });
const number = (queue, name, state) =>
  queue[name]
    ? html`<a class="num" href=${jobs(queue, state)}>${atLeast(queue[name], queue.at_least.includes(name))}</a>`
    : html`<span class="dim">0</span>`;

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { id: "name", title: "Queue", cell: (row) => html`<${Name} queue=${row} />` },
  { id: "due", title: "Due", align: "right", cell: (row) => number(row, "due", "due") },
  { id: "oldest", title: "Oldest", align: "right", cell: (row) => html`<${Oldest} queue=${row} />` },
  { id: "running", title: "Running", align: "right", cell: (row) => html`<${Running} queue=${row} />` },
  { id: "held", title: "Held", align: "right", from: "phone", cell: (row) => html`<${Held} queue=${row} />` },
  { id: "later", title: "Delayed", align: "right", from: "tablet", cell: (row) => number(row, "later", "delayed") },
];

/** @type {import("../parts/table.js").Column[]} */
const FIGURES = [
  {
    id: "in",
    title: "In/min",
    align: "right",
    from: "tablet",
    cell: (row) => row.figures && perMinute(row.figures.in_per_minute),
  },
  {
    id: "out",
    title: "Out/min",
    align: "right",
    from: "tablet",
    cell: (row) => row.figures && perMinute(row.figures.out_per_minute),
  },
  { id: "wait", title: "p95 wait", align: "right", from: "desk", cell: (row) => duration(row.figures?.wait.p95) },
  {
    id: "spark",
    title: "Last 30 min",
    from: "desk",
    cell: (row) =>
      row.figures && html`
        <${Spark}
          points=${row.figures.ended}
          label=${`${many(
            row.figures.ended.reduce((sum, one) => sum + one, 0),
            "job",
          )} of ${row.name} ended in the last 30 minutes`}
        />
      `,
  },
];

/** @type {import("../parts/table.js").Column[]} */
const SERVED = [
  { id: "workers", title: "Workers", align: "right", from: "phone", cell: (row) => html`<${Served} queue=${row} />` },
];

const perMinute = (value) =>
  value === null || value === undefined ? "" : value > 0 && value < 10 ? value.toFixed(1) : brief(Math.round(value));

function Name({ queue }) {
  return html`
    <div class="queue-name">
      <span class="row">
        <a href=${jobs(queue)}><b>${queue.name}</b></a>
        ${queue.gates.map(
          (gate) => html`
            <${State}
              key=${gate.name}
              state=${gate.kind === "pause" ? "paused" : gate.kind === "drop" ? "dropped" : "late"}
              text=${{
                pause: "paused",
                drop: "dropping",
                slow: `slowed to ${gate.rate}`,
                divert: `diverted to ${gate.to}`,
              }[gate.kind]}
            />
          `,
        )}
        ${queue.limits
          .filter((limit) => limit.rule.kind === "rate")
          .map(
            (limit) => html`
              <a key=${limit.name} class="tag" href=${href("/queues", { tab: "limits", limit: limit.name })}>
                ${limit.rule.said}
              </a>
            `,
          )}
      </span>
      ${queue.gates.map(
        (gate) => html`
          <span key=${gate.name} class="small dim why">
            ${gate.by && `by ${gate.by}`}
            ${gate.reason && `: ${gate.reason}`}
            ${gate.until ? html`; ends <${When} at=${gate.until} />` : ""}
          </span>
        `,
      )}
    </div>
  `;
}

function Oldest({ queue }) {
  if (!queue.oldest_due_at) return null;
  const isLong = !queue.is_paused && (Date.now() - Date.parse(queue.oldest_due_at)) / 1000 > LONG_S;
  return html`<span class=${isLong ? "warn-text" : ""}><${Took} from=${queue.oldest_due_at} /></span>`;
}

function Running({ queue }) {
  const limit = queue.limits.find((one) => one.rule.kind === "concurrency" && !one.rule.key);
  if (!limit) return number(queue, "running", "running");
  return html`
    <a href=${href("/queues", { tab: "limits", limit: limit.name })}>
      <${Meter} value=${limit.live} of=${limit.rule.concurrency} label=${`${limit.name}: ${limit.rule.said}`} />
    </a>
  `;
}

function Held({ queue }) {
  if (!queue.held) return html`<span class="dim">0</span>`;
  const own = queue.limits.find((one) => one.held > 0);
  return html`
    <a
      class="num"
      title=${TEXTS.heldHelp}
      href=${href("/queues", { tab: own || !queue.gates.length ? "limits" : "gates" })}
    >
      ${atLeast(queue.held, queue.at_least.includes("held"))}
    </a>
  `;
}

function Served({ queue }) {
  const isAlone = queue.workers === 0 && queue.due + queue.held > 0;
  if (isAlone) {
    return html`<span class="bad-text nobody"><${Icon} name="triangle-alert" class="small" />no worker</span>`;
  }
  return html`
    <a href="#/workers" title=${TEXTS.wantedWorkers(many(queue.wanted, "worker"))}>
      <span class="num">${queue.workers}</span>
      ${queue.wanted > queue.workers ? html` <span class="dim">of ${queue.wanted} needed</span>` : ""}
      ${queue.unplaced > 0
        ? html`
            ${" "}
            <span class="bad-text" title=${TEXTS.unrunnableHelp}>
              ${many(queue.unplaced, "job")} that no worker can run
            </span>
          `
        : ""}
    </a>
  `;
}

function Actions({ queue, refresh, open, begun }) {
  const isPaused = queue.gates.length > 0;
  const resume = () =>
    attempt(() => post(`/queues/${part(queue.name)}/resume`).then(refresh), TEXTS.queueResumed(queue.name));
  return html`
    <${Menu}
      icon="ellipsis"
      title=${`Actions for queue ${queue.name}`}
      class="icon-only"
      align="right"
      items=${[
        { label: "View jobs", icon: "list", href: jobs(queue) },
        isPaused
          ? { label: "Resume", icon: "play", run: resume }
          : { label: "Pause…", icon: "pause", run: () => open({ gate: { kind: "pause", queue: queue.name } }) },
        !isPaused && {
          label: "Slow down…",
          icon: "snail",
          run: () => open({ gate: { kind: "slow", queue: queue.name } }),
        },
        ...queue.limits.map((limit) => ({
          label: `Change limit (${limit.rule.said})…`,
          icon: "gauge",
          run: () => go("/queues", { tab: "limits", limit: limit.name }),
        })),
        "line",
        { label: "Cancel waiting jobs…", icon: "trash-2", isBad: true, run: () => purge(queue.name, begun) },
      ]}
    />
  `;
}

/** Cancel all waiting jobs of a queue, after showing their number. */
async function purge(queue, begun) {
  const change = { action: "cancel", filter: { queue, state: "queued" } };
  const tried = await attempt(() => post("/bulk", { ...change, dry_run: true }));
  if (!tried) return;
  if (!tried.count && !tried.is_partial) return void say(TEXTS.noneWaiting(queue), { tone: "run" });
  const said = `${count(tried.count)}${tried.is_partial ? " or more" : ""} ${tried.count === 1 ? "job" : "jobs"}`;
  const text = TEXTS.cancelWaitingText(queue);
  if (!(await ask({ title: `Cancel ${said}?`, text, does: `Cancel ${said}`, isBad: true, confirm: queue }))) return;
  const operation = await attempt(() =>
    post("/bulk", { ...change, filter: { ...change.filter, created_before: tried.at } }),
  );
  if (operation) begun(operation, tried.count);
}
