// Load the steps of a run: all of them once, then only the changed ones.

import { useCallback, useEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { get, part } from "./api.js";
import { onRun, useChanges } from "./live.js";

/**
 * @typedef {{name: string, task: string | null, state: string, is_mapped: boolean, is_approval: boolean, is_asking:
 *   boolean, total: number, ended: number, bad: number, counts: Record<string, number>, job_id: string | null,
 *   attempts: number, started_at: string | null, ended_at: string | null, duration_s: number | null, reason: string |
 *   null}} Step
 */

const PAGE = 500; // 170 KB

/** The steps of a run in the order of the dag, kept up to date.
 * @param {string} run @param {number | undefined} generation each rerun adds one, and everything is read again */
export function useSteps(run, generation) {
  const [held, setHeld] = useState({
    steps: /** @type {Map<string, Step> | null} */ (null),
    problem: /** @type {any} */ (null),
  });
  const at = useRef("");
  const busy = useRef(/** @type {AbortController | null} */ (null));

  const read = useCallback(
    async (isWhole) => {
      busy.current?.abort();
      const mine = (busy.current = new AbortController());
      try {
        const { found, asked } = await pages(run, isWhole ? undefined : at.current || undefined, mine.signal);
        at.current = asked;
        setHeld((now) => ({ steps: merged(isWhole ? null : now.steps, found), problem: null }));
      } catch (problem) {
        if (problem.name !== "AbortError") setHeld((now) => ({ ...now, problem }));
      }
    },
    [run],
  );
  const begun = useRef(generation);
  useEffect(() => {
    read(true);
    return () => busy.current?.abort();
  }, [read]);
  useEffect(() => {
    if (begun.current !== undefined && begun.current !== generation) read(true);
    begun.current = generation;
  }, [generation]);
  useChanges(onRun(run), () => read(!at.current));
  const list = useMemo(() => (held.steps ? [...held.steps.values()] : null), [held.steps]);
  return { steps: held.steps, list, problem: held.problem, refresh: () => read(true) };
}

async function pages(run, since, signal) {
  /** @type {Step[]} */
  const found = [];
  let asked = "";
  let cursor;
  do {
    const page = await get(`/runs/${part(run)}/steps`, { limit: PAGE, cursor, changed_since: since }, signal);
    found.push(...page.items);
    asked ||= page.at;
    cursor = page.next_cursor;
  } while (cursor);
  return { found, asked };
}

function merged(before, found) {
  if (before && !found.length) return before;
  const steps = new Map(before);
  for (const step of found) steps.set(step.name, step);
  return steps;
}

/**
 * The steps as far as the graph of a run knows them, until they are loaded.
 * @param {any[]} nodes
 * @returns {Map<string, Step>}
 */
export function firstSteps(nodes) {
  const none = {
    is_asking: false,
    total: 0,
    ended: 0,
    bad: 0,
    counts: {},
    job_id: null,
    attempts: 0,
    started_at: null,
    ended_at: null,
    duration_s: null,
    reason: null,
  };
  return new Map(
    nodes.map((node) => [
      node.name,
      {
        ...none,
        name: node.name,
        task: node.task || null,
        state: node.state || "waiting",
        is_mapped: Boolean(node.mapped),
        is_approval: node.kind === "approval",
      },
    ]),
  );
}

/** The displayed state of a step. @param {Step | undefined} step */
export function stateOfStep(step) {
  if (!step) return "waiting";
  if (step.is_asking) return "awaiting";
  return step.state === "queued" && step.attempts > 0 ? "retrying" : step.state;
}

const ORDER = [
  "succeeded",
  "running",
  "retrying",
  "queued",
  "awaiting",
  "waiting",
  "failed",
  "cancelled",
  "dropped",
  "expired",
  "skipped",
];

/** Counts by state, in a fixed order. @param {Record<string, number>} counts @returns {[string, number][]} */
export const inOrder = (counts) => ORDER.filter((state) => counts[state]).map((state) => [state, counts[state]]);

/** Counts of a mapped step's instances by state; instances without a job are waiting. @param {Step} step */
export function countsOf(step) {
  const known = Object.values(step.counts || {}).reduce((sum, one) => sum + one, 0);
  return step.total > known ? { ...step.counts, waiting: step.total - known } : step.counts || {};
}

/** Counts of steps by state. @param {Iterable<Step | undefined>} steps */
export function tally(steps) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const step of steps) {
    const state = stateOfStep(step);
    counts[state] = (counts[state] || 0) + 1;
  }
  return counts;
}

/** The combined state of several steps. @param {Record<string, number>} counts */
export function overall(counts) {
  for (const state of ["failed", "awaiting", "running", "retrying", "queued"]) if (counts[state]) return state;
  const states = Object.keys(counts);
  if (states.length === 1) return states[0];
  if (counts.waiting) return "waiting";
  for (const state of ["cancelled", "expired", "dropped"]) if (counts[state]) return state;
  return "succeeded";
}
