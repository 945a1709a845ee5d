// The grid of a dag: a column per run, a row per step. Each cell opens its step.

import { html, useEffect, useLayoutEffect, useMemo, useRef } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { key } from "../lib/run-grid.js";
import { href } from "../lib/router.js";
import { between, duration, minuteOf, moment } from "../lib/time.js";
import { Icon } from "./icon.js";
import { quietToneOf, signOf, wordOf } from "./state-badge.js";

const BAR = 44;

/** @param {{grid: import("../lib/run-grid.js").Grid, onOlder: () => void, onMoreSteps: () => void}} props */
export function GridTable({ grid, onOlder, onMoreSteps }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const right = useRef(0); // distance of the view from the latest run, so that loading older runs does not move it
  useLayoutEffect(() => {
    box.current.scrollLeft = box.current.scrollWidth - box.current.clientWidth - right.current;
  }, [grid.runs.length]);
  const scrolled = () => {
    right.current = box.current.scrollWidth - box.current.clientWidth - box.current.scrollLeft;
  };
  const longest = Math.max(1e-9, ...grid.runs.map((run) => between(run.started_at, run.ended_at) || 0));
  return html`
    <div class="grid-box" ref=${box} onScroll=${scrolled} tabindex="0" role="group" aria-label="Grid of runs and steps">
      <table class="grid-table" aria-label="Runs and steps">
        <thead>
          <tr>
            <th class="grid-step" scope="col">
              <${Edge} isThere=${grid.nextRun !== null} onSeen=${onOlder} label="Older runs" />
            </th>
            ${grid.runs.map(
              (run, at) => html`
                <${Column}
                  key=${run.id}
                  run=${run}
                  share=${(between(run.started_at, run.ended_at) || 0) / longest}
                  isNewVersion=${at > 0 && grid.runs[at - 1].version !== run.version}
                  isSaid=${(grid.runs.length - 1 - at) % 6 === 0}
                />
              `,
            )}
          </tr>
        </thead>
        <tbody>${grid.rows.map((row) => html`<${Row} key=${row.name} row=${row} grid=${grid} />`)}</tbody>
      </table>
      ${grid.nextStep !== null && html`
        <div class="more">
          <${Edge} isThere onSeen=${onMoreSteps} label="More steps" bySight />${" "}
          <span class="dim small">${grid.rows.length} of ${grid.rowCount} steps</span>
        </div>
      `}
    </div>
  `;
}

/** A button that loads more when clicked or scrolled into view. */
function Edge({ isThere, onSeen, label, bySight = false }) {
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!bySight || !isThere) return undefined;
    const seen = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && onSeen(), {
      rootMargin: "200px",
    });
    seen.observe(button.current);
    return () => seen.disconnect();
  }, [isThere, onSeen]);
  return isThere
    ? html`
        <button ref=${button} class="link" onClick=${onSeen}>
          ${!bySight && html`<${Icon} name="chevron-left" class="small" />`}
          ${label}
        </button>
      `
    : html`<span class="dim">Step</span>`;
}

function Column({ run, share, isNewVersion, isSaid }) {
  const took = between(run.started_at, run.ended_at);
  const ran = took === null ? "" : `, ${run.ended_at ? "took" : "running for"} ${duration(took)}`;
  const said = `Run of ${moment(run.created_at)}: ${wordOf(run.state)}${ran}, version ${run.version}`;
  return html`
    <th scope="col" data-version=${isNewVersion ? run.version : undefined}>
      <a
        class="grid-run"
        href=${href(`/runs/${part(run.id)}`)}
        data-tone=${quietToneOf(run.state)}
        title=${said}
        aria-label=${said}
      >
        ${isSaid && html`<small>${minuteOf(run.created_at)}</small>`}
        <i style=${{ height: `${Math.max(3, share * BAR)}px` }}></i>
      </a>
    </th>
  `;
}

function Row({ row, grid }) {
  const cells = grid.runs.map((run) => grid.cells.get(key(run.id, row.name)));
  return useMemo(
    () => html`
      <tr data-old=${!row.is_current}>
        <th scope="row" class="grid-step" title=${row.is_current ? row.name : `${row.name}: not in the latest version`}>
          <span class="clip">${row.name}</span>
          ${row.is_mapped && html`<small class="dim">×</small>`}
        </th>
        ${grid.runs.map(
          (run, at) => html`<td key=${run.id}><${CellMark} cell=${cells[at]} run=${run} step=${row.name} /></td>`,
        )}
      </tr>
    `,
    [row.name, row.is_current, JSON.stringify(cells), grid.runs.length, grid.runs[0]?.id],
  );
}

const SPRITE = new URL("../vendor/icons.svg", import.meta.url).pathname;

/** @param {{cell: import("../lib/run-grid.js").Cell | undefined, run: any, step: string}} props */
function CellMark({ cell, run, step }) {
  if (!cell) return null;
  const [state, took, attempts, total, ended, bad] = cell;
  const said = [
    `${step}: ${wordOf(state)}`,
    took === null ? "" : `took ${duration(took)}`,
    attempts > 1 ? `${attempts} attempts` : "",
    total > 1 ? `${ended} of ${total} instances ended${bad ? `, ${bad} failed` : ""}` : "",
    `run of ${moment(run.created_at)}`,
  ]
    .filter(Boolean)
    .join(", ");
  return html`
    <a
      class="cell"
      href=${href(`/runs/${part(run.id)}`, { step })}
      data-tone=${quietToneOf(state)}
      data-state=${state}
      title=${said}
      aria-label=${said}
    >
      <svg class="icon" aria-hidden="true"><use href="${SPRITE}#${signOf(state)}" /></svg>
    </a>
  `;
}
