// Recent failures grouped by task and error, and a dialog that retries a group after a preview.

import { html, useState } from "../vendor/core.js";
import { post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { atLeast, count, many } from "../lib/format.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/overview.js";
import { CopyAs, curl } from "../parts/copy-button.js";
import { Dialog, Refusal } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Operation } from "../parts/operation-progress.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { When } from "../parts/relative-time.js";

const SHOWN = 6;
const onFailure = (changes) => Boolean(changes.failed) || Boolean(changes.topics?.includes("operations"));

export function Failures() {
  const failures = useResource("/stats/failures", { query: { range: "24h" }, live: onFailure, pace: 3, every: 30 });
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [operations, setOperations] = useState(/** @type {{id: string, total: number}[]} */ ([]));
  const { data, problem, isLoading, refresh } = failures;
  const begun = (operation, total) => setOperations((now) => [{ id: operation.id, total }, ...now]);
  const close = (id) => setOperations((now) => now.filter((one) => one.id !== id));
  return html`
    <${Panel}
      title="Recent failures"
      class="wide failures"
      actions=${html`
        <span class="row small">
          <span class="dim">the last 24 hours, by error</span>
          <a class="link" href=${href("/dead")}>Dead letters<${Icon} name="arrow-right" class="small" /></a>
        </span>
      `}
    >
      ${operations.map(
        (one) => html`<${Operation} key=${one.id} id=${one.id} total=${one.total} onClose=${() => close(one.id)} />`,
      )}
      ${isLoading
        ? html`<${Loading} />`
        : problem && !data
          ? html`<${Trouble} problem=${problem} onRetry=${refresh} />`
          : data.items.length
            ? html`
                <${Table}
                  label="Recent failures"
                  rows=${data.items.slice(0, SHOWN)}
                  columns=${columns(setChosen)}
                  idOf=${idOf}
                  hrefOf=${opens}
                />
              `
            : html`<p class="calm"><${Icon} name="circle-check" />No failed jobs.</p>`}
      ${data?.items.length > SHOWN && html`
        <p class="glance-rest">
          <a class="link" href=${href("/dead")}>${many(data.items.length - SHOWN, "more kind", "more kinds")}</a>
        </p>
      `}
      ${chosen && html`<${RetryAll} group=${chosen} onClose=${() => setChosen(null)} onBegun=${begun} />`}
    </${Panel}>
  `;
}

const idOf = (group) => `${group.task} ${group.error}`;
const LONGEST = 500; // maximum length of an error in a filter
const errorOf = (group) => group.error.slice(0, LONGEST) || undefined;
const opens = (group) =>
  href("/jobs", {
    q: ["state:failed", word("task", group.task), ...(group.error ? [word("error", errorOf(group))] : [])].join(" "),
  });

const columns = (choose) => [
  {
    id: "count",
    title: "Jobs",
    align: /** @type {const} */ ("right"),
    width: "64px",
    from: /** @type {const} */ ("phone"),
    cell: (group) => html`<b class="num">${count(group.count)}</b>`,
  },
  {
    id: "error",
    title: "Error",
    cell: (group) => html`
      <div class="error">
        <a class="clip" href=${opens(group)} title=${group.error}>${group.error || "no message"}</a>
        <span class="dim clip">${group.task}<span class="times">, ${many(group.count, "job")}</span></span>
      </div>
    `,
  },
  {
    id: "last",
    title: "Last",
    from: /** @type {const} */ ("phone"),
    width: "110px",
    cell: (group) => html`
      <a href=${href(`/jobs/${group.newest_id}`)} title="Open the latest"><${When} at=${group.newest_at} /></a>
    `,
  },
  {
    id: "first",
    title: "First",
    from: /** @type {const} */ ("tablet"),
    width: "110px",
    cell: (group) => html`<${When} at=${group.oldest_at} />`,
  },
  ...(may("operate")
    ? [
        {
          id: "do",
          title: html`<span class="hidden-label">Actions</span>`,
          align: /** @type {const} */ ("right"),
          width: "150px",
          cell: (group) =>
            group.dead > 0
              ? html`
                  <button onClick=${() => choose(group)}>
                    <${Icon} name="rotate-ccw" />
                    ${group.dead > 1 ? `Retry all ${count(group.dead)}` : "Retry"}
                  </button>
                `
              : html`<span class="dim small done">redriven or discarded</span>`,
        },
      ]
    : []),
];

/** The same as API call; as command and Python if all ids are known. */
function formsOf(filter, tried) {
  const call = curl("POST", "/dead/redrive", { filter });
  if (!tried || tried.count !== tried.sample.length) return { curl: call };
  const ids = tried.sample.map((job) => job.id);
  return {
    curl: call,
    cli: `tickwork dead redrive ${ids.join(" ")}`,
    python: `app.redrive(ids=${JSON.stringify(ids)})`,
  };
}

/** Preview a retry, then execute it. */
function RetryAll({ group, onClose, onBegun }) {
  const filter = { task: group.task, error: errorOf(group) };
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [tried, setTried] = useState(/** @type {any} */ (undefined));
  if (tried === undefined) {
    setTried(null);
    post("/bulk", { action: "redrive", filter: { ...filter, dead: true }, dry_run: true }).then(setTried, setProblem);
  }
  const go = async () => {
    try {
      onBegun(await post("/dead/redrive", { filter }), tried.count);
      onClose();
    } catch (refused) {
      setProblem(refused);
    }
  };
  const said = tried && `${atLeast(tried.count, tried.is_partial)} ${tried.count === 1 ? "job" : "jobs"}`;
  const footer = html`
    <button onClick=${onClose}>Cancel</button>
    <button class="main" autofocus disabled=${!tried?.count} onClick=${go}>
      <${Icon} name="rotate-ccw" />Retry ${said || "them"}
    </button>
  `;
  return html`
    <${Dialog} title="Retry failed jobs of ${group.task}?" onClose=${onClose} footer=${footer} wide>
      <p class="error-said mono">${group.error}</p>
      ${problem
        ? html`<${Refusal} problem=${problem} />`
        : !tried
          ? html`<${Loading} />`
          : html`
              <p>${tried.count ? TEXTS.retryGroupText(said, group.task) : TEXTS.retryGroupGone}</p>
              <ul class="retry-sample">
                ${tried.sample.map(
                  (job) => html`
                    <li>
                      <code>${job.id}</code>
                      <span class="dim">failed <${When} at=${job.ended_at} />, attempt ${job.attempt}</span>
                    </li>
                  `,
                )}
              </ul>
            `}
      <div class="row"><${CopyAs} forms=${formsOf(filter, tried)} /></div>
    </${Dialog}>
  `;
}
