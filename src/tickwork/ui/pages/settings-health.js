// The health of the server and its database: problems first, then all facts.

import { html } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { TEXTS } from "../texts/settings.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { Moment } from "../parts/relative-time.js";

const LOOK_S = 10;
const CLOCK_S = 1; // clock differences above this are reported
const LATE_S = 10; // schedulers run every second
const RECENT_S = 300;

/** Whether the last error of a service is recent. @param {any} service */
const isFailing = (service) => service.error !== null && service.failed_s < RECENT_S;

/** The problems, as sentences. @param {any} health */
function troubles(health) {
  const found = [...health.warnings];
  if (Math.abs(health.clock_ahead_s) > CLOCK_S) {
    found.push(TEXTS.clockAhead(duration(health.clock_ahead_s), health.clock_ahead_s > 0 ? "ahead of" : "behind"));
  }
  if (health.scheduler_late_s > LATE_S) {
    found.push(TEXTS.schedulerLate(duration(health.scheduler_late_s)));
  }
  for (const service of health.services.filter(isFailing)) {
    found.push(TEXTS.serviceFailed(service.name, duration(service.failed_s), service.error));
  }
  return found;
}

const columns = [
  { id: "state", title: "State", cell: (one) => html`<${State} state=${isFailing(one) ? "failed" : "working"} />` },
  { id: "name", title: "Service", cell: (one) => html`<b>${one.name}</b>` },
  {
    id: "ticked",
    title: "Last tick",
    align: /** @type {const} */ ("right"),
    cell: (one) => html`${duration(one.ticked_s)} ago`,
  },
  {
    id: "error",
    title: "Last error",
    from: /** @type {const} */ ("phone"),
    cell: (one) =>
      one.error === null
        ? html`<span class="dim">none</span>`
        : html`<span class="wrap-anywhere">${duration(one.failed_s)} ago: ${one.error}</span>`,
  },
];

export default function Health() {
  const { data, problem, isLoading, refresh } = useResource("/health", { every: LOOK_S });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const found = troubles(data);
  return html`
    <div class="verdict" data-tone=${found.length ? "warn" : "good"} role="status">
      <${Icon} name=${found.length ? "triangle-alert" : "circle-check"} />
      <div>
        <h2>${found.length ? `${many(found.length, "problem needs", "problems need")} attention` : "Healthy"}</h2>
        ${found.length
          ? html`<ul>${found.map((said) => html`<li key=${said}>${said}</li>`)}</ul>`
          : html`<p class="dim">${TEXTS.healthyText}</p>`}
      </div>
    </div>
    <${Panel} title="This server">
      <${Facts}
        items=${[
          ["Version", data.version],
          ["Python", data.python],
          ["Uptime", duration(data.uptime_s)],
          ["Scheduler lag", data.scheduler_late_s > 0 ? `${duration(data.scheduler_late_s)} late` : "none"],
        ]}
      />
    </${Panel}>
    <${Panel} title="Store">
      <${Facts}
        items=${[
          ["Schema", `version ${data.schema_version}`],
          ["Time", html`<${Moment} at=${data.now} />`],
          ["Clock", clock(data.clock_ahead_s)],
          ...told(data.facts),
        ]}
      />
    </${Panel}>
    <${Panel} title="Services of this server">
      <${Table} label="Services" columns=${columns} rows=${data.services} idOf=${(one) => one.name} />
    </${Panel}>
  `;
}

/** Facts about the store, without its clock, which is shown above. @param {Record<string, string>} facts */
const told = (facts) =>
  Object.entries(facts)
    .filter(([name]) => name !== "clock")
    .map(([name, value]) => [name[0].toUpperCase() + name.slice(1), value]);

const clock = (ahead) =>
  Math.abs(ahead) < 0.0005
    ? "same as this server"
    : `${duration(ahead)} ${ahead > 0 ? "ahead of" : "behind"} this server`;
