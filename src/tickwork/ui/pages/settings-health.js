// Health: how this server and its database are, first what needs attention, then every figure.

import { html } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/notices.js";
import { Facts, Panel } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Moment } from "../parts/when.js";

const LOOK_S = 10;
const CLOCK_S = 1; // clocks further apart than this are worth a look
const LATE_S = 10; // schedulers look every second
const RECENT_S = 300;

/** Whether what last went wrong in a service is still news. @param {any} service */
const isFailing = (service) => service.error !== null && service.failed_s < RECENT_S;

/** What needs attention, as sentences. @param {any} health */
function troubles(health) {
  const found = [...health.warnings];
  if (Math.abs(health.clock_ahead_s) > CLOCK_S) {
    found.push(
      `The clock of the store is ${duration(health.clock_ahead_s)} ${health.clock_ahead_s > 0 ? "ahead of" : "behind"} this server's. Stored times are the store's; set both by NTP.`,
    );
  }
  if (health.scheduler_late_s > LATE_S) {
    found.push(
      `A schedule has been due for ${duration(health.scheduler_late_s)}, and no scheduler has read it. Is a worker or a server up that is not overloaded?`,
    );
  }
  for (const service of health.services.filter(isFailing)) {
    found.push(`The service ${service.name} went wrong ${duration(service.failed_s)} ago: ${service.error}`);
  }
  return found;
}

const columns = [
  { id: "state", title: "State", cell: (one) => html`<${State} state=${isFailing(one) ? "failed" : "working"} />` },
  { id: "name", title: "Service", cell: (one) => html`<b>${one.name}</b>` },
  {
    id: "ticked",
    title: "Last ticked",
    align: /** @type {const} */ ("right"),
    cell: (one) => html`${duration(one.ticked_s)} ago`,
  },
  {
    id: "error",
    title: "Last went wrong",
    from: /** @type {const} */ ("phone"),
    cell: (one) =>
      one.error === null
        ? html`<span class="dim">not since it started</span>`
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
        <h2>${found.length ? `${many(found.length, "thing needs", "things need")} attention` : "All is well"}</h2>
        ${found.length
          ? html`<ul>${found.map((said) => html`<li key=${said}>${said}</li>`)}</ul>`
          : html`
              <p class="dim">The store answers, clocks agree, no schedule is late, and no service went wrong lately.</p>
            `}
      </div>
    </div>
    <${Panel} title="This server">
      <${Facts}
        items=${[
          ["Version", data.version],
          ["Python", data.python],
          ["Up for", duration(data.uptime_s)],
          ["Latest schedule", data.scheduler_late_s > 0 ? `${duration(data.scheduler_late_s)} late` : "none is late"],
        ]}
      />
    </${Panel}>
    <${Panel} title="Store">
      <${Facts}
        items=${[
          ["Schema", `version ${data.schema_version}`],
          ["Its time", html`<${Moment} at=${data.now} />`],
          ["Its clock", clock(data.clock_ahead_s)],
          ...told(data.facts),
        ]}
      />
    </${Panel}>
    <${Panel} title="Services of this server">
      <${Table} label="Services" columns=${columns} rows=${data.services} idOf=${(one) => one.name} />
    </${Panel}>
  `;
}

/**
 * The store's own figures, without its clock, which is shown above.
 * @param {Record<string, string>} facts
 */
const told = (facts) =>
  Object.entries(facts)
    .filter(([name]) => name !== "clock")
    .map(([name, value]) => [name[0].toUpperCase() + name.slice(1), value]);

const clock = (ahead) =>
  Math.abs(ahead) < 0.0005
    ? "as this server's"
    : `${duration(ahead)} ${ahead > 0 ? "ahead of" : "behind"} this server's`;
