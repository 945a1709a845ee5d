// The dags page: the last runs, next run and steps of each dag.

import { html, useState } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useList } from "../lib/data.js";
import { many, percent } from "../lib/format.js";
import { onAny, onTopics } from "../lib/live.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { duration, moment } from "../lib/time.js";
import { TEXTS } from "../texts/dags.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Page, Panel } from "../parts/page-layout.js";
import { Sign, wordOf } from "../parts/state-badge.js";
import { More, Table } from "../parts/table.js";
import { When } from "../parts/relative-time.js";
import { StartDialog } from "./dag-start-dialog.js";

export const CODE = `# pipelines.py
from tickwork import Tickwork

app = Tickwork()

@app.task
def extract(day: str) -> list[int]:
    return [1, 2, 3]

@app.task
def transform(part: int) -> int:
    return part * 10

@app.task
def load(parts: list[int]) -> int:
    return sum(parts)

@app.dag
def etl(day: str) -> int:
    raw = extract(day)          # a step
    parts = transform.map(raw)  # one job for each element
    return load(parts)

# and in a shell:  tickwork worker pipelines.py
#                  tickwork run etl day=2026-11-15 --watch`;

export const dagHref = (name, query) => href(`/dags/${part(name)}`, query);
const STRIP = 10;

/** The latest runs of a dag as icons, the latest at the right. @param {{runs: any[]}} props */
export function Strip({ runs }) {
  const blanks = Array.from({ length: Math.max(0, STRIP - runs.length) });
  return html`
    <span class="strip">
      ${blanks.map(() => html`<i class="blank"></i>`)}
      ${[...runs]
        .reverse()
        .map(
          (run) => html`
            <a
              key=${run.id}
              href=${href(`/runs/${part(run.id)}`)}
              title="${wordOf(run.state)}, ${moment(run.created_at)}${run.duration_s === null
                ? ""
                : `, took ${duration(run.duration_s)}`}"
            >
              <${Sign} state=${run.state} label="${wordOf(run.state)} run of ${moment(run.created_at)}" />
            </a>
          `,
        )}
    </span>
  `;
}

const columns = [
  {
    id: "name",
    title: "Dag",
    cell: (dag) => html`
      <a class="dag-name" href=${dagHref(dag.name)}>
        <b>${dag.name}</b>
        ${dag.description && html`<span class="dim clip" data-from="phone">${dag.description}</span>`}
      </a>
    `,
  },
  { id: "recent", title: "Last 10 runs", cell: (dag) => html`<${Strip} runs=${dag.recent} />` },
  {
    id: "rate",
    title: "Succeeded",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("phone"),
    cell: (dag) =>
      dag.success_rate === null
        ? html`<span class="dim" title="No run has ended yet">–</span>`
        : html`<span class=${dag.success_rate < 0.5 ? "bad-text" : ""}>${percent(dag.success_rate)}</span>`,
  },
  {
    id: "average",
    title: "Avg duration",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("phone"),
    cell: (dag) => (dag.average_s === null ? "" : duration(dag.average_s)),
  },
  {
    id: "last",
    title: "Last run",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("tablet"),
    cell: (dag) => html`<${When} at=${dag.recent[0]?.created_at} none="never" />`,
  },
  {
    id: "next",
    title: "Next",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("tablet"),
    cell: (dag) => html`<${Next} dag=${dag} />`,
  },
  {
    id: "steps",
    title: "Steps",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("desk"),
    cell: (dag) => dag.steps,
  },
  {
    id: "version",
    title: "Version",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("desk"),
    cell: (dag) => dag.version,
  },
];

function Next({ dag }) {
  if (dag.next_due_at) {
    return html`<a href=${href(`/schedules/${part(dag.schedules[0])}`)}><${When} at=${dag.next_due_at} /></a>`;
  }
  if (dag.schedules.length) return html`<a class="dim" href=${href(`/schedules/${part(dag.schedules[0])}`)}>paused</a>`;
  return html`<span class="dim" title="Not scheduled">–</span>`;
}

export default function Dags() {
  const list = useList("/dags", {
    live: onAny(onTopics("dags", "schedules"), (changes) => Boolean(changes.runs?.length)),
    idOf: (dag) => dag.name,
  });
  const [starting, setStarting] = useState(/** @type {any} */ (null));
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  const start = {
    id: "do",
    title: html`<span class="hidden-label">Actions</span>`,
    align: /** @type {const} */ ("right"),
    cell: (dag) => html`
      <button onClick=${() => setStarting(dag)} aria-label="Start run of ${dag.name}">
        <${Icon} name="play" />
        <span data-from="phone">Start</span>
      </button>
    `,
  };
  const live = list.items.filter((dag) => dag.recent.some((run) => run.state === "running")).length;
  return html`
    <${Page}
      title="Dags"
      lead=${list.items.length > 0 && html`
        <span>${many(list.items.length, "dag")}${list.hasMore ? " and more" : ""}</span>
        ${live > 0 && html`<span>${live} running</span>`}
      `}
    >
      <${Panel} label="Dags">
        ${list.fresh > 0 && html`
          <button class="fresh-bar" onClick=${list.refresh}>${many(list.fresh, "new dag")}</button>
        `}
        ${list.items.length
          ? html`
              <${Table}
                label="Dags"
                columns=${may("enqueue") ? [...columns, start] : columns}
                rows=${list.items}
                idOf=${(dag) => dag.name}
                hrefOf=${(dag) => dagHref(dag.name)}
              />
              <${More} list=${list} />
            `
          : html`<${Empty} icon="workflow" title="No dags yet" code=${CODE}>${TEXTS.noDagsText}</${Empty}>`}
      </${Panel}>
      ${starting && html`<${StartDialog} dag=${starting} onClose=${() => setStarting(null)} />`}
    </${Page}>
  `;
}
