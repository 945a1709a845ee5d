// The findings that need attention, most severe first.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { many } from "../lib/format.js";
import { valueOf } from "../lib/query.js";
import { href } from "../lib/router.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Sign } from "../parts/state-badge.js";
import { When } from "../parts/relative-time.js";

const SHOWN = 8;

/** The page for each kind of finding: a query of jobs, or the page of a thing. */
const LEADS = {
  jobs: (query) => href("/jobs", { q: query }),
  queues: () => href("/queues"),
  limits: (name) => href("/queues", { tab: "limits", limit: name }),
  gates: () => href("/queues", { tab: "gates" }),
  workers: (id) => href(id ? `/workers/${part(id)}` : "/workers"),
  schedules: (name) => href(name ? `/schedules/${part(name)}` : "/schedules"),
  dead: () => href("/dead"),
  runs: (said) => href(valueOf(said, "dag") ? `/dags/${part(valueOf(said, "dag"))}` : `/runs/${part(said)}`),
  settings: () => href("/settings", { part: "health" }),
};
const leads = ({ page, query }) => (LEADS[page] || (() => href("/")))(query);

/** @param {{attention: ReturnType<typeof import("../lib/data.js").useResource>}} props */
export function Attention({ attention }) {
  const { data, problem, isLoading, refresh } = attention;
  const items = data?.items || [];
  return html`
    <${Panel}
      title="Needs attention"
      class="attention"
      actions=${items.length > 0 && html`<span class="dim small num">${many(items.length, "thing")}</span>`}
    >
      ${isLoading
        ? html`<${Loading} />`
        : problem && !data
          ? html`<${Trouble} problem=${problem} onRetry=${refresh} />`
          : items.length
            ? html`
                <ol class="glance">
                  ${items.slice(0, SHOWN).map((one) => html`<${Line} key="${one.kind} ${one.title}" one=${one} />`)}
                </ol>
              `
            : html`<p class="calm"><${Icon} name="circle-check" />Nothing needs attention.</p>`}
      ${items.length > SHOWN && html`
        <details class="glance-rest">
          <summary>${items.length - SHOWN} more</summary>
          <ol class="glance">
            ${items.slice(SHOWN).map((one) => html`<${Line} key="${one.kind} ${one.title}" one=${one} />`)}
          </ol>
        </details>
      `}
    </${Panel}>
  `;
}

function Line({ one }) {
  return html`
    <li data-kind=${one.kind} data-severity=${one.severity}>
      <a href=${leads(one.link)}>
        <${Sign} state=${one.severity} />
        <span class="what"><b>${one.title}</b><span class="dim">${one.detail}</span></span>
        <span class="end num">${one.since && html`<span class="dim small"><${When} at=${one.since} /></span>`}</span>
      </a>
    </li>
  `;
}
