// The event stream of the page: one connection that reports what changed. Pages then request the data that they show.

import { signal, useEffect, useRef } from "../vendor/core.js";
import { address } from "./api.js";
import { serverSays } from "./time.js";

/** @typedef {{at: string, jobs?: {created: number, started: number, ended: number}, job_ids?: string[],
 *   is_partial?: boolean, runs?: string[], failed?: number, topics?: string[], reset?: boolean}} Changes */

/** "live", "paused", "connecting" or "off". */
export const state = signal("connecting");
/** Whether the user has paused updates. */
export const paused = signal(false);
/** Jobs that failed since the page was last visible. */
export const failedUnseen = signal(0);

const HIDDEN_MS = 30_000;
const RETRY_MS = [1000, 2000, 5000, 10_000, 30_000];
/** @type {Set<(changes: Changes) => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
let cursor = "";
let failures = 0;
let isWanted = false; // a user is logged in
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

function hear(name, event) {
  cursor = event.lastEventId || cursor;
  const told = JSON.parse(event.data);
  serverSays(told.at);
  failures = 0;
  state.value = "live";
  if (name === "hello") return;
  if (document.hidden) failedUnseen.value += told.failed || 0;
  const changes = name === "reset" ? { ...told, reset: true } : told;
  for (const listener of listeners) listener(changes);
}

function open() {
  clearTimeout(later);
  if (source || !isWanted || paused.peek()) return;
  state.value = "connecting";
  source = new EventSource(address("/stream", { cursor }));
  for (const name of ["hello", "changes", "reset"]) source.addEventListener(name, (event) => hear(name, event));
  source.onerror = () => {
    if (source?.readyState === EventSource.CLOSED) {
      close("off");
      later = setTimeout(open, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
      failures += 1;
    } else state.value = "connecting"; // the browser reconnects with the last event id
  };
}

function close(why) {
  clearTimeout(later);
  source?.close();
  source = null;
  state.value = why;
}

/** Connect the stream, once the user is logged in. */
export function listen() {
  isWanted = true;
  cursor = "";
  if (paused.peek()) state.value = "paused";
  else open();
}

export function stop() {
  isWanted = false;
  close("off");
}

/** @param {boolean} isPaused */
export function pause(isPaused) {
  paused.value = isPaused;
  if (isPaused) close("paused");
  else open();
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(later);
  if (document.hidden) {
    later = setTimeout(() => source && close("connecting"), HIDDEN_MS);
    return;
  }
  failedUnseen.value = 0;
  open();
});

const LEAST_MS = 1000;

/**
 * Call a function after relevant changes, at most once a second or as configured. It is not called again before
 * its previous promise resolves, so a slow server is not flooded.
 * @param {(changes: Changes) => boolean} concerns
 * @param {() => any} callback
 * @param {number} [leastMs]
 */
export function useChanges(concerns, callback, leastMs = LEAST_MS) {
  const latest = useRef({ concerns, callback });
  latest.current = { concerns, callback };
  useEffect(() => {
    let last = Date.now(); // the displayed data was just loaded
    let [isAsking, isMissed, isGone] = [false, false, false];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let waiting;
    const plan = () => {
      isMissed = false;
      waiting = setTimeout(fire, Math.max(0, last + leastMs - Date.now()));
    };
    const fire = async () => {
      waiting = undefined;
      isAsking = true;
      last = Date.now();
      try {
        await latest.current.callback();
      } finally {
        isAsking = false;
        if (isMissed && !isGone) plan();
      }
    };
    const listener = (changes) => {
      if (waiting || !(changes.reset || latest.current.concerns(changes))) return;
      if (isAsking) isMissed = true;
      else plan();
    };
    listeners.add(listener);
    return () => {
      isGone = true;
      listeners.delete(listener);
      clearTimeout(waiting);
    };
  }, []);
}

/** Predicates for relevant changes, passed to hooks as `live`. */
export const onJobs = (changes) =>
  Boolean(
    changes.job_ids?.length || (changes.jobs && changes.jobs.created + changes.jobs.started + changes.jobs.ended),
  );
/** @param {string} id */
export const onJob = (id) => (changes) =>
  Boolean(changes.job_ids?.includes(id) || (changes.is_partial && onJobs(changes)));
/** @param {string} id */
export const onRun = (id) => (changes) => Boolean(changes.runs?.includes(id) || changes.is_partial);
/** @param {...string} topics */
export const onTopics =
  (...topics) =>
  (changes) =>
    topics.some((topic) => changes.topics?.includes(topic));
/** @param {...(changes: Changes) => boolean} concerns */
export const onAny =
  (...concerns) =>
  (changes) =>
    concerns.some((one) => one(changes));
