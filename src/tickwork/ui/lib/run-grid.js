// Load the grid of runs and steps of a dag page by page, and reload the latest runs when they change.

import { useCallback, useEffect, useRef, useState } from "../vendor/core.js";
import { get, part } from "./api.js";
import { useChanges } from "./live.js";

const RUNS = 30;
const STEPS = 50;

/**
 * @typedef {[state: string, duration_s: number | null, attempts: number, total: number, ended: number, bad: number] |
 *   null} Cell
 */
/**
 * @typedef {{runs: any[], rows: any[], cells: Map<string, Cell>, rowCount: number, nextRun: string | null, nextStep:
 *   string | null}} Grid `runs` from old to new, `rows` are steps; a cell is found by `key(run, step)`.
 */

export const key = (run, step) => `${run}\n${step}`;

/** @param {string} dag */
export function useGrid(dag) {
  const [grid, setGrid] = useState(/** @type {Grid | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const shown = useRef(grid);
  shown.current = grid;
  const ask = useCallback((query) => get(`/dags/${part(dag)}/grid`, { runs: RUNS, steps: STEPS, ...query }), [dag]);
  const attempt = useCallback(async (read) => {
    try {
      await read();
      setProblem(null);
    } catch (refused) {
      setProblem(refused);
    }
  }, []);

  const newest = useCallback(
    () =>
      attempt(async () => {
        const pages = await allRows(ask, {}, shown.current?.rows.length || STEPS);
        setGrid((now) => joined(now, pages, "newest"));
      }),
    [ask],
  );
  const older = useCallback(
    () =>
      attempt(async () => {
        const { nextRun, rows } = shown.current;
        const pages = await allRows(ask, { cursor: nextRun }, rows.length);
        setGrid((now) => joined(now, pages, "older"));
      }),
    [ask],
  );
  const moreSteps = useCallback(
    () =>
      attempt(async () => {
        const { nextStep, runs } = shown.current;
        const pages = [];
        for (let cursor, left = runs.length; left > 0; left -= RUNS) {
          const page = await ask({ cursor, steps_after: nextStep });
          pages.push(page);
          cursor = page.next_cursor;
          if (!cursor) break;
        }
        setGrid((now) => joined(now, pages, "steps"));
      }),
    [ask],
  );

  useEffect(() => void newest(), [newest]);
  const concerns = (changes) =>
    (changes.runs || []).some((id) => !isOver(shown.current, id)) || Boolean(changes.is_partial);
  useChanges(concerns, newest);
  return { grid, problem, older, moreSteps, refresh: newest };
}

/** Whether a run is displayed and has ended, so it cannot change. Unknown runs may be new ones of this dag. */
const isOver = (grid, id) => Boolean(grid?.runs.find((run) => run.id === id)?.ended_at);

/** The same runs, with the displayed number of steps. */
async function allRows(ask, query, rows) {
  const pages = [await ask(query)];
  while (pages.at(-1).next_step && pages.length * STEPS < rows) {
    pages.push(await ask({ ...query, steps_after: pages.at(-1).next_step }));
  }
  return pages;
}

/** @returns {Grid} */
function joined(now, pages, how) {
  const runs = new Map((now?.runs || []).map((run) => [run.id, run]));
  const rows = new Map((now?.rows || []).map((row) => [row.name, row]));
  const cells = new Map(now?.cells);
  for (const page of pages) {
    for (const run of page.runs) runs.set(run.id, run);
    for (const { cells: told, ...row } of page.steps) {
      rows.set(row.name, row);
      told.forEach((cell, at) => cells.set(key(page.runs[at].id, row.name), cell));
    }
  }
  const last = pages.at(-1);
  return {
    runs: [...runs.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    rows: [...rows.values()],
    cells,
    rowCount: Math.max(last.step_count, rows.size),
    nextRun: how === "older" || !now ? pages[0].next_cursor : now.nextRun,
    nextStep: how === "steps" || !now ? last.next_step : now.nextStep,
  };
}
