// The timeline of a run: when each step waited and ran, and the critical path.

import { html, useMemo } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onRun } from "../lib/live.js";
import { stateOfStep } from "../lib/run-steps.js";
import { duration, now } from "../lib/time.js";
import { TEXTS } from "../texts/dags.js";
import { Gantt } from "../parts/gantt.js";
import { Empty } from "../parts/loading-and-errors.js";

/**
 * @param {{run: any, list: import("../lib/run-steps.js").Step[], edges: {from: string, to: string}[], chosen: string |
 *   null, onChoose: (name: string) => void, isMatch: any}} props
 */
export default function Timeline({ run, list, edges, chosen, onChoose, isMatch }) {
  const { data } = useResource(`/runs/${part(run.id)}/timeline`, { query: { bars: "false" }, live: onRun(run.id) });
  const isLive = run.ended_at === null;
  const critical = useMemo(() => new Set((data?.critical_path || []).map((one) => one.step)), [data]);
  const rows = useMemo(() => bars(run, list, edges, critical, isMatch), [run, list, edges, critical, isMatch]);
  if (!run.started_at || !rows.length) {
    return html`<${Empty} icon="chart-gantt" title="Not started yet">${TEXTS.timelineLater}</${Empty}>`;
  }
  const from = Date.parse(data?.began_at || run.started_at);
  const to = isLive ? now.value : Math.max(...rows.map((row) => row.end || 0), Date.parse(run.ended_at));
  return html`
    <div class="stack">
      <${Gantt}
        bars=${rows}
        from=${from}
        to=${Math.max(to, from + 1)}
        isLive=${isLive}
        chosen=${chosen}
        onChoose=${onChoose}
      />
      <${Legend} path=${data?.critical_path || []} />
    </div>
  `;
}

function Legend({ path }) {
  const ran = path.reduce((sum, one) => sum + one.duration_s, 0);
  const waited = path.reduce((sum, one) => sum + one.waited_s, 0);
  return html`
    <div class="gantt-legend dim small">
      <span><i class="waits"></i>ready, waiting for a slot</span>
      <span><i class="waits" data-retried="true"></i>earlier attempts</span>
      ${path.length > 0 && html`
        <span>
          <i class="runs" data-critical="true"></i>critical path: ${many(path.length, "step")}, ${duration(ran)} running
          and ${duration(waited)} waiting
        </span>
      `}
      <span class="keys-hint"><kbd>+</kbd> <kbd>-</kbd> <kbd>0</kbd> Ctrl + scroll to zoom</span>
    </div>
  `;
}

/** Started steps by start time, then the others in the order of the dag. */
function bars(run, list, edges, critical, isMatch) {
  const began = Date.parse(run.started_at);
  const known = new Map(list.map((step) => [step.name, step]));
  const before = new Map();
  for (const { from, to } of edges) before.has(to) ? before.get(to).push(from) : before.set(to, [from]);
  const made = list.map((step) => barOf(step, before.get(step.name) || [], known, began, critical, isMatch));
  return [
    ...made.filter((bar) => bar.start !== null).sort((a, b) => a.start - b.start),
    ...made.filter((bar) => bar.start === null),
  ];
}

function barOf(step, parents, known, began, critical, isMatch) {
  const state = stateOfStep(step);
  const start = step.started_at ? Date.parse(step.started_at) : null;
  const isReady = start !== null || ["queued", "running", "retrying", "awaiting"].includes(state);
  const freed = parents
    .map((name) => known.get(name)?.ended_at)
    .filter(Boolean)
    .map(Date.parse);
  const ready = isReady ? Math.max(began, ...freed) : null;
  return {
    name: step.name,
    state,
    start,
    ready: start !== null && start < began ? null : ready,
    end: step.ended_at ? Date.parse(step.ended_at) : null,
    attempts: step.attempts,
    isCritical: critical.has(step.name),
    total: step.is_mapped ? step.total : 0,
    isFaded: Boolean(isMatch && !isMatch(step.name, state)),
  };
}
