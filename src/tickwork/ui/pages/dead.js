// The dead letters page: groups by error, task or queue, with redrive and discard; and the operations tab.

import { html, useState } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { atLeast, count, many } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/dead.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Operation } from "../parts/operation-progress.js";
import { Page, Panel } from "../parts/page-layout.js";
import { Table, useSelection } from "../parts/table.js";
import { chosenTab, Tabs } from "../parts/tabs.js";
import { When } from "../parts/relative-time.js";
import { filterOf, Group } from "./dead-group.js";
import { Operations } from "./dead-operations.js";
import { DiscardDialog, RedriveDialog } from "./dead-redrive-dialog.js";

const TABS = [
  { id: "letters", label: "Dead letters" },
  { id: "operations", label: "Operations" },
];
const WAYS = [
  ["error", "Error"],
  ["task", "Task"],
  ["queue", "Queue"],
];
const onFailures = (changes) => Boolean(changes.failed) || onTopics("operations")(changes);

/** The identity of a group, independent of its current jobs. @param {any} group */
const idOf = (group) => Object.values(filterOf(group)).join(" ");

export default function Dead() {
  const tab = chosenTab(TABS);
  return html`
    <${Page} title="Dead letters" lead=${tab === "letters" ? TEXTS.deadLead : TEXTS.operationsLead}>
      <${Tabs} tabs=${TABS} />
      ${tab === "letters" ? html`<${Letters} />` : html`<${Operations} />`}
    </${Page}>
  `;
}

function Letters() {
  const by = WAYS.some(([id]) => id === place.value.query.by) ? place.value.query.by : "error";
  const { data, problem, isLoading, isStale, refresh } = useResource("/dead", { query: { by }, live: onFailures });
  const selection = useSelection();
  const [asked, setAsked] = useState(
    /** @type {{action: "redrive" | "discard", groups: any[], isAll: boolean} | null} */ (null),
  );
  const [operations, setOperations] = useState(/** @type {{id: string, total: number | null}[]} */ ([]));
  if (isLoading || isStale) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const groups = data.items.map((one) => ({ ...one, by }));
  const chosen = groups.filter((one) => selection.ids.has(idOf(one)));
  const act = (action, some, isAll = false) => setAsked({ action, groups: some, isAll });
  const begun = (more) => {
    setOperations((now) => [...now, ...more]);
    selection.clear();
    setQuery({ group: undefined });
  };
  const shut = (id) => setOperations((now) => now.filter((one) => one.id !== id));
  const opened = groups.find((one) => place.value.query.group === idOf(one));
  const shown = { groups, by, selection, chosen, act, data };
  return html`
    ${operations.map(
      (one) => html`
        <${Operation} key=${one.id} id=${one.id} total=${one.total} onEnd=${refresh} onClose=${() => shut(one.id)} />
      `,
    )}
    ${groups.length
      ? html`<${List} ...${shown} />`
      : html`
          <${Panel} label="Dead letters">
            <${Empty} icon="circle-check" title="No dead letters">${TEXTS.noDeadText}</${Empty}>
          </${Panel}>
        `}
    ${opened && html`
      <${Group}
        key=${idOf(opened)}
        group=${opened}
        onClose=${() => setQuery({ group: undefined })}
        act=${(action) => act(action, [opened])}
      />
    `}
    ${asked?.action === "redrive" && html`
      <${RedriveDialog} groups=${asked.groups} isAll=${asked.isAll} onClose=${() => setAsked(null)} onBegun=${begun} />
    `}
    ${asked?.action === "discard" && html`
      <${DiscardDialog} groups=${asked.groups} isAll=${asked.isAll} onClose=${() => setAsked(null)} onBegun=${begun} />
    `}
  `;
}

function List({ groups, by, selection, chosen, act, data }) {
  const some = chosen.length ? chosen : groups;
  const letters = some.reduce((sum, one) => sum + one.count, 0);
  const grouped = many(groups.length, "group");
  const said = chosen.length
    ? `${many(chosen.length, "group")}, ${many(letters, "dead letter")}`
    : `${data.is_partial ? `${atLeast(data.total, true)} dead letters` : many(data.total, "dead letter")}, ${grouped}`;
  const most = Math.max(...groups.map((one) => one.count));
  const mayDo = may("operate");
  /** @type {import("../parts/table.js").Column[]} */
  const columns = [
    {
      id: "what",
      title: { error: "Error", task: "Task", queue: "Queue" }[by],
      cell: (row) => html`<${What} group=${row} by=${by} />`,
    },
    {
      id: "count",
      title: "Jobs",
      align: "right",
      cell: (row) => html`
        <span class="dead-count">
          <b class="num">${count(row.count)}</b>
          <span class="bar-track" data-tone="bad" aria-hidden="true" data-from="tablet">
            <i style=${{ width: `${(row.count / most) * 100}%` }}></i>
          </span>
        </span>
      `,
    },
    {
      id: "first",
      title: "First",
      align: "right",
      from: "tablet",
      cell: (row) => html`<${When} at=${row.oldest_at} />`,
    },
    { id: "last", title: "Last", align: "right", from: "phone", cell: (row) => html`<${When} at=${row.newest_at} />` },
  ];
  const keys = mayDo
    ? [
        { keys: "r", does: "redrive group", run: (row) => act("redrive", [row]) },
        { keys: "d", does: "discard group", run: (row) => act("discard", [row]) },
      ]
    : [];
  return html`
    <${Panel} label="Dead letters">
      <header class="dead-bar">
        <div class="choice" role="group" aria-label="Group by">
          <span class="dim small">Group by</span>
          ${WAYS.map(
            ([id, label]) => html`
              <button
                key=${id}
                aria-pressed=${by === id}
                onClick=${() => {
                  selection.clear();
                  setQuery({ by: id === "error" ? undefined : id, group: undefined }, { push: true });
                }}
              >
                ${label}
              </button>
            `,
          )}
        </div>
        <div class="row">
          <span class="dim" role="status">${said}</span>
          ${mayDo && html`
            <button class="main" onClick=${() => act("redrive", some, !chosen.length)}>
              <${Icon} name="rotate-ccw" />Redrive${chosen.length ? "" : " all"}…
            </button>
            <button onClick=${() => act("discard", some, !chosen.length)}>
              <${Icon} name="trash-2" />Discard${chosen.length ? "" : " all"}…
            </button>
          `}
          ${chosen.length > 0 && html`<button class="link" onClick=${selection.clear}>Clear selection</button>`}
        </div>
      </header>
      ${data.is_partial && html`
        <div class="inner"><${Notice} tone="warn" icon="info">${TEXTS.deadPartial(count(data.total))}</${Notice}></div>
      `}
      <${Table}
        label="Dead letters"
        columns=${columns}
        rows=${groups}
        idOf=${idOf}
        selection=${mayDo ? selection : undefined}
        rowKeys=${keys}
        onOpen=${(row) => setQuery({ group: idOf(row) }, { push: true })}
      />
    </${Panel}>
  `;
}

function What({ group, by }) {
  const title = by === "error" ? group.error || "no error message" : by === "task" ? group.task : group.queue;
  const beside =
    by === "error" ? [group.task, group.queue] : by === "task" ? [group.queue, group.error] : [group.task, group.error];
  return html`
    <div class="dead-what">
      <button
        class="link ${by === "error" ? "mono bad-text" : ""}"
        onClick=${() => setQuery({ group: idOf(group) }, { push: true })}
      >
        ${title}
      </button>
      <span class="dim small clip">${beside.filter(Boolean).join(" · ")}</span>
    </div>
  `;
}
