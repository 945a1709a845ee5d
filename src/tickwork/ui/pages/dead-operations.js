// Operations: bulk changes with their author and progress, and a button to stop each.

import { html } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useList } from "../lib/data.js";
import { count } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/dead.js";
import { curl } from "../parts/copy-button.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { More, Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { Took, When } from "../parts/relative-time.js";

const CODE = curl("POST", "/bulk", { action: "retry", filter: { queue: "mail", state: "failed" }, dry_run: true });
const FIELDS = {
  task: "task",
  queue: "queue",
  state: "state",
  error: "error",
  key: "key",
  collection: "collection",
  label: "label",
  tenant: "tenant",
  worker: "worker",
  run_id: "run",
  parent_id: "parent",
  creator: "creator",
};

/** The jobs of an operation, as a query for the jobs page. @param {any} filter */
const wordsOf = (filter) => [
  ...(filter.dead ? ["is:dead"] : []),
  ...Object.entries(FIELDS)
    .filter(([name]) => filter[name])
    .map(([name, field]) => word(field, String(filter[name]))),
];

export function Operations() {
  const list = useList("/operations", { live: onTopics("operations") });
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  if (!list.items.length) {
    return html`
      <${Panel} label="Operations">
        <${Empty} icon="history" title="No operations yet" code=${CODE} language="bash">
          ${TEXTS.operationsText}
        </${Empty}>
      </${Panel}>
    `;
  }
  return html`
    <${Panel} label="Operations">
      ${list.fresh > 0 && html`<button class="fresh-bar" onClick=${list.showFresh}>${count(list.fresh)} new</button>`}
      <${Table} label="Operations" columns=${columnsOf(list.renew)} rows=${list.items} />
      ${list.hasMore && html`<${More} list=${list} />`}
    </${Panel}>
  `;
}

/** @param {() => void} renew @returns {import("../parts/table.js").Column[]} */
function columnsOf(renew) {
  const cancel = (row) =>
    attempt(() => post(`/operations/${part(row.id)}/cancel`).then(renew), TEXTS.operationStopping);
  return [
    {
      id: "state",
      title: "State",
      cell: (row) => html`
        <${State} state=${row.state} text=${{ succeeded: "done", cancelled: "stopped" }[row.state]} />
      `,
    },
    {
      id: "what",
      title: "Action",
      cell: (row) => html`
        <div class="operation-what">
          <b>${row.action}</b>${" "}
          <${Which} filter=${row.filter} />
          ${row.error && html`<p class="bad-text small">${row.error}</p>`}
        </div>
      `,
    },
    { id: "changed", title: "Changed", align: "right", cell: (row) => html`<b class="num">${count(row.changed)}</b>` },
    {
      id: "looked",
      title: "Scanned",
      align: "right",
      from: "tablet",
      cell: (row) => html`<span class="num dim">${count(row.looked)}</span>`,
    },
    { id: "by", title: "By", from: "phone", cell: (row) => row.by },
    {
      id: "when",
      title: "Started",
      align: "right",
      from: "phone",
      cell: (row) => html`<${When} at=${row.created_at} />`,
    },
    {
      id: "took",
      title: "Took",
      align: "right",
      from: "tablet",
      cell: (row) => html`<${Took} from=${row.created_at} to=${row.ended_at} />`,
    },
    {
      id: "do",
      title: html`<span class="hidden-label">Actions</span>`,
      align: "right",
      cell: (row) => !row.ended_at && may("operate") && html`<button onClick=${() => cancel(row)}>Stop</button>`,
    },
  ];
}

function Which({ filter }) {
  const words = wordsOf(filter);
  if (!words.length) return html`<span class="dim">selected jobs</span>`;
  return html`<a class="mono dim" href=${href("/jobs", { q: words.join(" ") })}>${words.join(" ")}</a>`;
}
