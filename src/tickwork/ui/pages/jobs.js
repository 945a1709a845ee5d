// The jobs page: query, counts by state, the list of jobs and bulk actions.

import { html, useEffect, useMemo, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { atLeast, count, many, shortId } from "../lib/format.js";
import { useKeys } from "../lib/keyboard.js";
import { onJobs } from "../lib/live.js";
import { pageSize } from "../lib/browser-prefs.js";
import { parse, valueOf, withField, wordsAsError } from "../lib/query.js";
import { place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { now } from "../lib/time.js";
import { TEXTS } from "../texts/jobs.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Operation } from "../parts/operation-progress.js";
import { Page, Panel } from "../parts/page-layout.js";
import { signOf, toneOf } from "../parts/state-badge.js";
import { More, Table, useSelection } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { QueryBox } from "./jobs-query-input.js";
import { BulkBar, BulkDialog } from "./jobs-bulk-actions.js";
import { ColumnsMenu, jobHref, shownColumns, shownState } from "./jobs-columns.js";
import { useCurrent } from "./jobs-live-rows.js";
import { Views } from "./jobs-saved-views.js";

const CODE = `from tickwork import Tickwork

app = Tickwork()

@app.task(queue="mail", retries=5)
def send_email(to: str) -> None: ...

send_email.enqueue(to="ada@example.org")
app.work()`;

const COUNT_S = 3; // counting reads thousands of jobs
const RARE = ["dropped", "expired", "cancelled", "delayed", "retrying"]; // shown if there are some
const AGES = [
  ["Any time", null],
  ["Last hour", "<1h"],
  ["Last 24 hours", "<24h"],
  ["Last 7 days", "<7d"],
];
const showQuery = (q) => setQuery({ q: q || undefined }, { push: true });

export default function Jobs() {
  const text = place.value.query.q || "";
  const query = useMemo(() => parse(text, now.peek()), [text]);
  const list = useList("/jobs", { query: query.filter, live: onJobs, limit: pageSize.value });
  const current = useCurrent(list.items);
  const { state, ...unstated } = query.filter;
  const counts = useResource("/jobs/counts", { query: unstated, live: onJobs, pace: COUNT_S });
  const selection = useSelection();
  useEffect(selection.clear, [text]);
  useEffect(() => selection.keep(list.items.map((job) => job.id)), [list.items]);
  const renew = () => {
    current.renew();
    list.renew();
    counts.refresh();
  };
  return html`
    <${Page}
      title="Jobs"
      actions=${html`<${CopyAs} forms=${formsOf(query.filter)} label="Copy list as" /><${ColumnsMenu} />`}
    >
      <div class="jobs-head">
        <div class="row query-row">
          <${QueryBox}
            text=${text}
            onChange=${(said) => setQuery({ q: said || undefined })}
            troubles=${query.troubles}
          />
          <${Ages} text=${text} />
        </div>
        <div class="row spread">
          <${States} counts=${counts.data?.items} text=${text} />
          <div class="row"><${Views} text=${text} /></div>
        </div>
      </div>
      <${Many}
        selection=${selection}
        rows=${current.rows}
        query=${query}
        counts=${counts.data?.items}
        state=${state}
        onChanged=${renew}
      />
      <${Rows} list=${list} rows=${current.rows} selection=${selection} query=${query} onChanged=${renew} />
    </${Page}>
  `;
}

function Ages({ text }) {
  const said = valueOf(text, "age") ?? null;
  const here = AGES.find(([, age]) => age === said);
  return html`
    <${Menu}
      icon="clock"
      label=${here ? here[0] : `age ${said}`}
      align="right"
      items=${AGES.map(([label, age]) => ({
        label,
        isOn: age === said,
        run: () => showQuery(withField(text, "age", age)),
      }))}
    />
  `;
}

function States({ counts, text }) {
  const chosen = valueOf(text, "state");
  const shown = (counts || []).filter((one) => one.count || one.state === chosen || !RARE.includes(one.state));
  return html`
    <div class="chips" role="group" aria-label="Jobs by state">
      ${shown.map(
        (one) => html`
          <button
            key=${one.state}
            class="chip"
            data-tone=${toneOf(one.state)}
            data-state=${one.state}
            aria-pressed=${one.state === chosen}
            onClick=${() => showQuery(withField(text, "state", one.state === chosen ? null : one.state))}
          >
            <${Icon} name=${signOf(one.state)} />
            <span>${one.state}</span>
            <b class="num">${atLeast(one.count, one.is_bounded)}</b>
          </button>
        `,
      )}
    </div>
  `;
}

/** The number of matching jobs, possibly a lower bound. */
function matching(counts, state) {
  const counted = (counts || []).filter(
    (one) =>
      !state || one.state === state || (state === "queued" && ["due", "delayed", "retrying"].includes(one.state)),
  );
  if (!counted.length) return { size: null, said: "" };
  const size = counted.reduce((sum, one) => sum + one.count, 0);
  return { size, said: `${count(size)}${counted.some((one) => one.is_bounded) ? "+" : ""}` };
}

/** The toolbar for the selection, its dialogs, and running operations. */
function Many({ selection, rows, query, counts, state, onChanged }) {
  const [asked, setAsked] = useState(/** @type {any} */ (null));
  const [begun, setBegun] = useState(/** @type {{id: string, total: number | null}[]} */ ([]));
  useKeys(selection.size ? [{ keys: "Escape", does: "clear selection", run: selection.clear }] : []);
  const { q, ...filter } = query.filter;
  const isUnderstood = query.troubles.length === 0; // no bulk actions for invalid queries
  const { said, size } = matching(counts, state);
  const isAnything = Object.keys(filter).length === 0;
  const canAll = !q && !isAnything && isUnderstood && (size === null || size > selection.size);
  const hint = q
    ? html`<button class="link" onClick=${() => showQuery(wordsAsError(query.text))}>${TEXTS.cannotSelectAll}</button>`
    : isAnything && html`<span class="dim" data-from="tablet">${TEXTS.restrictFirst}</span>`;
  const states = selection.isAll
    ? state
      ? [state]
      : null
    : rows.filter((job) => selection.ids.has(job.id)).map(shownState);
  const which = () => (selection.isAll ? { filter } : { ids: [...selection.ids] });
  return html`
    ${selection.size > 0 && html`
      <${BulkBar}
        selection=${selection}
        states=${states}
        matching=${said}
        canAll=${canAll}
        onAll=${selection.all}
        hint=${hint}
        onAction=${(action) => setAsked({ action, which: which() })}
      />
    `}
    ${asked && html`
      <${BulkDialog}
        ...${asked}
        onClose=${() => setAsked(null)}
        onBegun=${(one, total) => {
          setBegun([...begun, { id: one.id, total }]);
          selection.clear();
        }}
      />
    `}
    ${begun.map(
      (one) => html`
        <${Begun}
          key=${one.id}
          ...${one}
          onChanged=${onChanged}
          onClose=${() => setBegun(begun.filter((other) => other !== one))}
        />
      `,
    )}
  `;
}

function Begun({ id, total, onChanged, onClose }) {
  const [isOver, setOver] = useState(false);
  useEffect(() => void (isOver && onChanged()), [isOver]);
  return html`<${Operation} id=${id} total=${total} onEnd=${() => setOver(true)} onClose=${onClose} />`;
}

const BAD = { failed: "bad", retrying: "retry" };

function Rows({ list, rows, selection, query, onChanged }) {
  const change = (what, done) => (job) =>
    attempt(() => post(`/jobs/${part(job.id)}/${what}`).then(onChanged), `${job.task} ${done}.`);
  const cancel = async (job) => {
    const text = TEXTS.cancelJobText(job.task, shortId(job.id));
    if (await ask({ title: `Cancel ${job.task}?`, text, does: "Cancel job", isBad: true })) {
      await change("cancel", "cancelled or asked to stop")(job);
    }
  };
  const rowKeys = may("operate")
    ? [
        { keys: "r", does: "retry job", run: change("retry", "queued again") },
        { keys: "c", does: "cancel job", run: cancel },
      ]
    : [];
  if (list.problem && !rows.length) {
    return html`<${Panel} label="Jobs"><${Trouble} problem=${list.problem} onRetry=${list.refresh} /></${Panel}>`;
  }
  if (list.isLoading && !rows.length) return html`<${Panel} label="Jobs"><${Loading} /></${Panel}>`;
  const top = () => {
    list.refresh();
    scrollTo({ top: 0 });
  };
  return html`
    <${Panel} label="Jobs" class="jobs ${list.isLoading ? "is-stale" : ""}">
      ${list.fresh > 0 && html`
        <div class="fresh">
          <button class="main" onClick=${top}>
            <${Icon} name="arrow-up" />${list.fresh >= pageSize.value ? `${count(list.fresh)}+` : count(list.fresh)} new
          </button>
        </div>
      `}
      ${list.isPartial && html`<div class="inner"><${Notice} tone="warn">${TEXTS.tooManyNames}</${Notice}></div>`}
      ${rows.length
        ? html`
            <${Table}
              label="Jobs"
              columns=${shownColumns()}
              rows=${rows}
              hrefOf=${jobHref}
              selection=${may("operate") ? selection : undefined}
              rowKeys=${rowKeys}
              toneOf=${(job) => BAD[shownState(job)]}
            />
          `
        : html`<${Nothing} list=${list} query=${query} />`}
      <${More} list=${list} />
      ${rows.length > 0 && !list.hasMore && html`
        <p class="list-end dim small">${many(rows.length, "job")}, end of list.</p>
      `}
    </${Panel}>
  `;
}

function Nothing({ list, query }) {
  if (list.hasMore) {
    return html`<${Empty} icon="search" title="No match so far">${TEXTS.searchMore}</${Empty}>`;
  }
  if (!query.text) {
    return html`<${Empty} icon="list" title="No jobs yet" code=${CODE}>${TEXTS.noJobsText}</${Empty}>`;
  }
  return html`
    <${Empty} icon="funnel-x" title="No matching jobs">
      Old jobs are pruned after their retention.${" "}
      <button class="link" onClick=${() => showQuery("")}>Show all jobs</button>
    </${Empty}>
  `;
}

const COMMAND = ["state", "task", "queue", "key", "collection", "label"];
const WAITS = ["due", "delayed", "retrying"];

/** The list as API calls. Command and Python have fewer filters, and are offered if they are equivalent. */
function formsOf(filter) {
  const given = Object.entries(filter);
  const isPlain = given.every(
    ([name, value]) =>
      COMMAND.includes(name) &&
      !(name === "state" && WAITS.includes(value)) &&
      !(name === "task" && value.endsWith("*")),
  );
  return {
    curl: curl("GET", "/jobs", undefined, filter),
    cli: isPlain
      ? ["tickwork jobs list", ...given.map(([name, value]) => `--${name} ${quoted(value)}`)].join(" ")
      : undefined,
    python: isPlain
      ? `app.jobs(${given.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`
      : undefined,
  };
}
