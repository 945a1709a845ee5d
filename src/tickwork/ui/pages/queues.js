// The queues page: tabs for queues, limits, gates and tenants.

import { html, useState } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { atLeast, count, many } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/queues.js";
import { Icon } from "../parts/icon.js";
import { Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Operation } from "../parts/operation-progress.js";
import { Page } from "../parts/page-layout.js";
import { chosenTab, Tabs } from "../parts/tabs.js";
import { When } from "../parts/relative-time.js";
import { GateDialog } from "./queues-gate-form.js";
import { Gates } from "./queues-gates.js";
import { Limits, ownerOf } from "./queues-limits.js";
import { Queues as QueueList } from "./queues-table.js";
import { Tenants, WeightDialog } from "./queues-tenants.js";

export default function Queues() {
  const queues = useResource("/queues", { live: onAny(onJobs, onTopics("gates", "limits", "workers")), every: 10 });
  const limits = useResource("/limits", { live: onAny(onJobs, onTopics("limits")), every: 10 });
  const gates = useResource("/gates", { live: onAny(onJobs, onTopics("gates")), every: 10 });
  const tenants = useResource("/tenants", { live: onTopics("tenants") });
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const [operations, setOperations] = useState(/** @type {{id: string, total: number}[]} */ ([]));
  const all = [queues, limits, gates, tenants];
  const refresh = () => all.forEach((one) => one.refresh());
  const failed = all.find((one) => one.problem && !one.data);
  if (failed) return html`<${Trouble} problem=${failed.problem} onRetry=${refresh} />`;
  if (all.some((one) => one.isLoading)) return html`<${Loading} />`;

  const tabs = [
    { id: "queues", label: "Queues", count: queues.data.items.length },
    { id: "limits", label: "Limits", count: limits.data.items.length },
    { id: "gates", label: "Gates", count: gates.data.items.length },
    { id: "tenants", label: "Tenants", count: tenants.data.items.length },
  ];
  const tab = chosenTab(tabs);
  const open = (/** @type {any} */ what) => setDialog(what);
  const begun = (/** @type {{id: string}} */ operation, /** @type {number} */ total) =>
    setOperations((now) => [...now, { id: operation.id, total }]);
  const shut = (/** @type {string} */ id) => {
    setOperations((now) => now.filter((one) => one.id !== id));
    refresh();
  };
  const actions =
    may("operate") &&
    (tab === "tenants"
      ? html`<button onClick=${() => open({ weight: {} })}><${Icon} name="plus" />Set weight</button>`
      : html`<button onClick=${() => open({ gate: {} })}><${Icon} name="plus" />New gate</button>`);
  return html`
    <${Page} title="Queues" lead=${html`<${Lead} queues=${queues.data.items} />`} actions=${actions}>
      <${OpenBreakers} limits=${limits.data.items} />
      ${operations.map(
        (one) => html`<${Operation} key=${one.id} id=${one.id} total=${one.total} onClose=${() => shut(one.id)} />`,
      )}
      <${Tabs} tabs=${tabs} />
      ${tab === "queues" && html`
        <${QueueList}
          queues=${queues.data.items}
          limits=${limits.data.items}
          gates=${gates.data.items}
          refresh=${refresh}
          open=${open}
          begun=${begun}
        />
      `}
      ${tab === "limits" && html`<${Limits} limits=${limits.data.items} refresh=${refresh} />`}
      ${tab === "gates" && html`<${Gates} gates=${gates.data.items} refresh=${refresh} open=${open} />`}
      ${tab === "tenants" && html`<${Tenants} tenants=${tenants.data.items} refresh=${refresh} open=${open} />`}
      ${dialog?.gate && html`<${GateDialog} given=${dialog.gate} onClose=${() => setDialog(null)} onDone=${refresh} />`}
      ${dialog?.weight && html`
        <${WeightDialog} given=${dialog.weight} onClose=${() => setDialog(null)} onDone=${refresh} />
      `}
    </${Page}>
  `;
}

function Lead({ queues }) {
  const sum = (name) => queues.reduce((all, one) => all + one[name], 0);
  const isBounded = (name) => queues.some((one) => one.at_least.includes(name));
  return html`
    <span><b class="num">${atLeast(sum("due"), isBounded("due"))}</b> due</span>
    <span><b class="num">${count(sum("running"))}</b> running</span>
    <span><b class="num">${atLeast(sum("later"), isBounded("later"))}</b> delayed</span>
    ${sum("held") > 0 && html`<span><b class="num">${atLeast(sum("held"), isBounded("held"))}</b> held</span>`}
  `;
}

/** Open breakers are shown on every tab, since they act without an operator. */
function OpenBreakers({ limits }) {
  const open = limits.filter((one) => one.open_keys > 0);
  return open.map(
    (one) => html`
      <${Notice} key=${one.name} tone="bad" icon="zap">
        <b>The breaker of ${ownerOf(one.name)} is open.</b>${" "}
        ${one.rule.key ? `${many(one.open_keys, "key")} failed too often` : "Too many jobs failed"}, so nothing more
        starts.${" "}
        ${Date.parse(one.open_until) > Date.now()
          ? html`A probe starts <${When} at=${one.open_until} />.`
          : TEXTS.breakerProbing}
        ${one.held > 0 ? ` ${many(one.held, "job")} ${one.held === 1 ? "waits" : "wait"} for it. ` : " "}
        <a class="link" href=${href("/queues", { tab: "limits", limit: one.name })}>View</a>
      </${Notice}>
    `,
  );
}
