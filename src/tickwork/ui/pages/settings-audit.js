// The audit log with filters, and the values before and after each change.

import { html, useEffect, useMemo, useState } from "../vendor/core.js";
import { useList } from "../lib/data.js";
import { now } from "../lib/time.js";
import { place, setQuery } from "../lib/router.js";
import { TEXTS } from "../texts/settings.js";
import { Changes } from "../parts/field-changes.js";
import { Dialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Panel } from "../parts/page-layout.js";
import { More, Table } from "../parts/table.js";
import { Moment, When } from "../parts/relative-time.js";

const WAIT_MS = 300;
const SPANS = {
  "1h": ["in the last hour", 3600],
  "1d": ["in the last day", 86400],
  "7d": ["in the last 7 days", 7 * 86400],
  "30d": ["in the last 30 days", 30 * 86400],
};

const columns = [
  { id: "at", title: "When", cell: (one) => html`<${Moment} at=${one.at} />` },
  { id: "who", title: "Who", cell: (one) => html`<b class="clip">${one.who}</b>` },
  {
    id: "action",
    title: "Action",
    cell: (one) => html`
      <span class=${one.action === "failed_login" ? "bad-text" : ""}>${one.action.replaceAll("_", " ")}</span>
    `,
  },
  {
    id: "target",
    title: "Object",
    from: /** @type {const} */ ("phone"),
    cell: (one) => html`<span class="mono wrap-anywhere">${one.target}</span>`,
  },
  {
    id: "address",
    title: "From",
    from: /** @type {const} */ ("desk"),
    cell: (one) => html`<span class="dim num">${one.address}</span>`,
  },
];

export default function Audit() {
  const { who, action, target, since, change } = place.value.query;
  const from = useMemo(
    () => (SPANS[since] ? new Date(now.value - Number(SPANS[since][1]) * 1000).toISOString() : undefined),
    [since],
  );
  const list = useList("/audit", { query: { who, action, target, since: from }, limit: 50 });
  const isFiltered = Boolean(who || action || target || since);
  const opened = list.items.find((one) => one.id === change);
  return html`
    <${Panel}
      title="Audit log"
      actions=${html`<button class="bare" onClick=${list.refresh}><${Icon} name="refresh-cw" />Refresh</button>`}
    >
      <div class="filters" role="search" aria-label="Filter">
        <${Filter} name="who" label="Who" hint="user:ada" />
        <${Filter} name="action" label="Action" hint="create_user" />
        <${Filter} name="target" label="Object" hint="key:deploy" />
        <label class="field">
          <span>When</span>
          <select value=${since || ""} onChange=${(event) => setQuery({ since: event.target.value })}>
            <option value="">any time</option>
            ${Object.entries(SPANS).map(([id, [name]]) => html`<option key=${id} value=${id}>${name}</option>`)}
          </select>
        </label>
        ${isFiltered && html`
          <button onClick=${() => setQuery({ who: "", action: "", target: "", since: "" })}>
            <${Icon} name="funnel-x" />All
          </button>
        `}
      </div>
      <${Found} list=${list} isFiltered=${isFiltered} />
    </${Panel}>
    ${opened && html`<${One} one=${opened} />`}
  `;
}

function Found({ list, isFiltered }) {
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  if (!list.items.length) {
    return html`
      <${Empty} icon="scroll-text" title=${isFiltered ? "No matching changes" : "No changes yet"}>
        ${isFiltered ? TEXTS.auditNames : TEXTS.noAuditText}
      </${Empty}>
    `;
  }
  return html`
    <${Table}
      label="Changes"
      columns=${columns}
      rows=${list.items}
      onOpen=${(one) => setQuery({ change: one.id }, { push: true })}
    />
    ${list.hasMore && html`<${More} list=${list} />`}
  `;
}

/** A filter input; the filter applies when the user stops typing. */
function Filter({ name, label, hint }) {
  const said = place.value.query[name] || "";
  const [typed, setTyped] = useState(said);
  useEffect(() => setTyped(said), [said]);
  useEffect(() => {
    const waits = setTimeout(() => setQuery({ [name]: typed.trim() }), WAIT_MS);
    return () => clearTimeout(waits);
  }, [typed]);
  return html`
    <label class="field">
      <span>${label}</span>
      <input
        type="search"
        value=${typed}
        placeholder=${hint}
        autocomplete="off"
        onInput=${(event) => setTyped(event.target.value)}
      />
    </label>
  `;
}

function One({ one }) {
  const only = (name) => html`
    <button class="link" onClick=${() => setQuery({ change: "", [name]: one[name] })}>${one[name]}</button>
  `;
  return html`
    <${Dialog} title=${one.action.replaceAll("_", " ")} onClose=${() => setQuery({ change: "" })} drawer>
      <${Facts}
        items=${[
          ["Who", only("who")],
          ["Object", only("target")],
          ["When", html`<${Moment} at=${one.at} />, <${When} at=${one.at} />`],
          ["From", one.address],
          ["Operation", only("action")],
          ["Request", html`<code>${one.request_id}</code>`],
        ]}
      />
      <h3>Changes</h3>
      <${Changes} before=${one.before} after=${one.after} />
    </${Dialog}>
  `;
}
