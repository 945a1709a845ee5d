// The steps of a run as a table.

import { html, useState } from "../vendor/core.js";
import { count } from "../lib/format.js";
import { stateOfStep } from "../lib/run-steps.js";
import { Empty } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { Took, When } from "../parts/relative-time.js";

const PAGE = 100;
const columns = [
  { id: "state", title: "State", width: "130px", cell: (step) => html`<${State} state=${stateOfStep(step)} />` },
  {
    id: "name",
    title: "Step",
    cell: (step) => html`
      <b>${step.name}</b>
      ${step.task && step.task !== step.name ? html` <span class="dim">${step.task}</span>` : null}
    `,
  },
  {
    id: "count",
    title: "Instances",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("phone"),
    cell: (step) =>
      step.is_mapped
        ? html`
            ${count(step.ended)}${" "}
            <span class="dim">of ${count(step.total)}</span>
            ${step.bad > 0 && html` <span class="bad-text">${count(step.bad)} failed</span>`}
          `
        : "",
  },
  {
    id: "tries",
    title: "Attempts",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("phone"),
    cell: (step) => step.attempts || "",
  },
  {
    id: "started",
    title: "Started",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("tablet"),
    cell: (step) => html`<${When} at=${step.started_at} />`,
  },
  {
    id: "took",
    title: "Took",
    align: /** @type {const} */ ("right"),
    cell: (step) => html`<${Took} from=${step.started_at} to=${step.ended_at} />`,
  },
  {
    id: "reason",
    title: "Why",
    from: /** @type {const} */ ("tablet"),
    cell: (step) => html`<span class="dim clip">${step.reason}</span>`,
  },
];

/**
 * @param {{list: import("../lib/run-steps.js").Step[], isMatch: any, onChoose: (name: string) => void, chosen: string |
 *   null}} props
 */
export function StepTable({ list, isMatch, onChoose, chosen }) {
  const [shown, setShown] = useState(PAGE);
  const found = isMatch ? list.filter((step) => isMatch(step.name, stateOfStep(step))) : list;
  if (!found.length) {
    return html`
      <${Panel} label="Steps"><${Empty} icon="search" title=${isMatch ? "No matching steps" : "No steps"} /></${Panel}>
    `;
  }
  return html`
    <${Panel} label="Steps">
      <${Table}
        label="Steps"
        columns=${columns}
        rows=${found.slice(0, shown)}
        idOf=${(step) => step.name}
        onOpen=${(step) => onChoose(step.name)}
        toneOf=${(step) => (step.name === chosen ? "run" : undefined)}
      />
      ${found.length > shown && html`
        <div class="more">
          <button class="link" onClick=${() => setShown(shown + PAGE * 5)}>${count(found.length - shown)} more</button>
        </div>
      `}
    </${Panel}>
  `;
}
