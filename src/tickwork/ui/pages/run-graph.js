// The graph of a run: the graph of its dag with the state of each step.

import { html, useCallback } from "../vendor/core.js";
import { countsOf, inOrder, overall, stateOfStep, tally } from "../lib/run-steps.js";
import { clockOf, duration } from "../lib/time.js";
import { TEXTS } from "../texts/dags.js";
import { Graph } from "../parts/graph-view.js";

/**
 * @param {{data: import("../lib/graph.js").GraphData, steps: Map<string, import("../lib/run-steps.js").Step>, chosen:
 *   string | null, onChoose: (name: string) => void, isMatch: any, seek: number}} props
 */
export function RunGraph({ data, steps, chosen, onChoose, isMatch, seek }) {
  const look = useCallback((box) => lookOf(box, steps), [steps]);
  return html`
    <${Graph}
      data=${data}
      look=${look}
      chosen=${chosen}
      onChoose=${onChoose}
      isMatch=${isMatch}
      seek=${seek}
      label=${TEXTS.graphLabel}
    />
  `;
}

function lookOf(box, steps) {
  if (!box.node) {
    const counts = tally(box.steps.map((name) => steps.get(name)));
    return { state: overall(counts), counts: inOrder(counts), total: box.steps.length };
  }
  const step = steps.get(box.node.name);
  const state = stateOfStep(step);
  if (step?.is_mapped && step.total) return { state, counts: inOrder(countsOf(step)), total: step.total };
  return { state, line: lineOf(step, state, box.node) };
}

/** The line below the name of a step: duration, start time or kind. */
function lineOf(step, state, node) {
  const task = node.task && node.task !== node.name && !node.name.endsWith(`.${node.task}`) ? node.task : "";
  const tries = step?.attempts > 1 ? `attempt ${step.attempts}` : "";
  const time =
    step?.duration_s !== null && step?.ended_at
      ? duration(step.duration_s)
      : state === "running" && step.started_at
        ? `since ${clockOf(step.started_at)}`
        : state === "succeeded" || state === "running"
          ? ""
          : state.replaceAll("_", " ");
  return [time, tries, task].filter(Boolean).join(" · ");
}
