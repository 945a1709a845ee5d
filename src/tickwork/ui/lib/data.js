// Load data of the API into components, keep it while it is reloaded, and reload it when the event stream reports a
// change.

import { useCallback, useEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { get } from "./api.js";
import { paused, useChanges } from "./live.js";
import { inTurns } from "./coalesce.js";

const never = () => false;
const AGAIN_MS = 3000;
const PASSING = new Set([0, 502, 503, 504]); // a server that is unreachable for a while

/** Retry a request that an unreachable server did not answer. @param {any} problem @param {() => void} again */
function useAgain(problem, again) {
  useEffect(() => {
    if (!problem || !PASSING.has(problem.status)) return undefined;
    const timer = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [problem]);
}

/**
 * Load a path of the API, and reload it when it, its parameters or the data change. Data stays while it is
 * reloaded (`isStale`) and while the server does not answer (`problem`). A path of null loads nothing. `every`:
 * also reload after this number of seconds, for data without events. `pace`: the minimum of seconds between
 * reloads, for data that changes slowly or is expensive.
 * @param {string | null} path
 * @param {{query?: Record<string, any>, live?: (changes: any) => boolean, every?: number, pace?: number}} [how]
 * @returns {{data: any, problem: any, isLoading: boolean, isStale: boolean, refresh: () => Promise<void>, set:
 *   (data:   any) => void}}
 */
export function useResource(path, { query, live = never, every = 0, pace = 1 } = {}) {
  const key = path === null ? null : JSON.stringify([path, query]);
  const [held, setHeld] = useState({ key: null, data: undefined, problem: null });
  const gone = useRef(/** @type {AbortController | null} */ (null));

  const refresh = useMemo(() => {
    if (key === null) return async () => {};
    const mine = new AbortController();
    gone.current = mine;
    return inTurns(async () => {
      try {
        const data = await get(path, query, mine.signal);
        if (!mine.signal.aborted) setHeld({ key, data, problem: null });
      } catch (problem) {
        if (mine.signal.aborted) return;
        setHeld((before) => ({ key, data: before.key === key ? before.data : undefined, problem }));
      }
    });
  }, [key]);

  useEffect(() => {
    const mine = gone.current;
    refresh();
    return () => mine?.abort();
  }, [refresh]);
  useChanges(live, refresh, pace * 1000);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => !document.hidden && !paused.value && refresh(), every * 1000);
    return () => clearInterval(timer);
  }, [refresh, every]);

  const isStale = held.key !== key;
  useAgain(isStale ? null : held.problem, refresh);
  const set = useCallback((data) => setHeld({ key, data, problem: null }), [key]);
  return {
    data: held.data,
    problem: isStale ? null : held.problem,
    isLoading: held.data === undefined && !held.problem,
    isStale,
    refresh,
    set,
  };
}

/**
 * Load a list page by page; its rows do not move. Displayed rows are updated in place. New rows are counted
 * (`fresh`) and appear on request (`showFresh`). `more` loads the next page. `idOf` identifies rows.
 * @param {string} path
 * @param {{query?: Record<string, any>, live?: (changes: any) => boolean, idOf?: (row: any) => string, limit?:
 *   number}}   [how]
 */
export function useList(path, { query = {}, live = never, idOf = (row) => row.id, limit = 50 } = {}) {
  const key = JSON.stringify([path, query, limit]);
  const [held, setHeld] = useState({
    key: "",
    items: /** @type {any[]} */ ([]),
    next: null,
    fresh: /** @type {any[]} */ ([]),
    problem: null,
    isPartial: false,
  });
  const current = useRef(/** @type {AbortController | null} */ (null));
  const waiting = useRef(/** @type {"first" | "more" | null} */ (null)); // what the user requested and waits for
  const shown = useRef(held);
  shown.current = held;

  const load = useCallback(
    async (mode) => {
      const before = shown.current.key === key ? shown.current : null;
      if (mode === "more" && (waiting.current || !before?.next)) return;
      current.current?.abort();
      const mine = (current.current = new AbortController());
      waiting.current = mode === "renew" ? null : mode;
      try {
        const cursor = mode === "more" ? before?.next : query.cursor;
        const page = await someOf(path, { ...query, limit, cursor }, mine.signal, mode === "renew" ? 1 : LOOKS);
        if (!mine.signal.aborted) setHeld((now) => joined(mode, now.key === key ? now : null, page, key, idOf));
      } catch (problem) {
        if (!mine.signal.aborted) setHeld((now) => ({ ...now, key, items: now.key === key ? now.items : [], problem }));
      }
      if (!mine.signal.aborted) waiting.current = null;
    },
    [key],
  );
  // A request of the user comes first: it includes these changes.
  const renew = useMemo(() => inTurns(async () => (waiting.current ? undefined : load("renew"))), [load]);
  useEffect(() => {
    load("first");
    return () => current.current?.abort();
  }, [load]);
  useChanges(live, () =>
    shown.current.key === key && shown.current.items.length ? renew() : waiting.current || load("first"),
  );

  const showFresh = useCallback(() => {
    setHeld((now) => ({ ...now, items: [...now.fresh, ...now.items], fresh: [] }));
  }, []);
  const isStale = held.key !== key;
  useAgain(isStale ? null : held.problem, () => load(held.items.length ? "renew" : "first"));
  return {
    items: held.items,
    fresh: isStale ? 0 : held.fresh.length,
    hasMore: !isStale && held.next !== null,
    next: held.next,
    problem: isStale ? null : held.problem,
    isPartial: held.isPartial,
    isLoading: isStale && !held.problem,
    more: () => load("more"),
    refresh: () => load("first"),
    renew,
    showFresh,
  };
}

const LOOKS = 10;

/** Load a page of a list; continue while pages are empty, since a search scans a limited number of rows at a time. */
async function someOf(path, query, signal, looks) {
  let page = await get(path, query, signal);
  for (let look = 1; look < looks && !page.items.length && page.next_cursor; look += 1) {
    page = await get(path, { ...query, cursor: page.next_cursor }, signal);
  }
  return page;
}

function joined(mode, now, page, key, idOf) {
  const next = page.next_cursor ?? null;
  const isPartial = Boolean(page.is_partial);
  if (mode === "first" || now === null) return { key, items: page.items, next, fresh: [], problem: null, isPartial };
  const told = new Map(page.items.map((row) => [idOf(row), row]));
  const known = new Set(now.items.map(idOf));
  const items = now.items.map((row) => told.get(idOf(row)) || row);
  if (mode === "more") {
    return {
      ...now,
      items: [...items, ...page.items.filter((row) => !known.has(idOf(row)))],
      next,
      problem: null,
      isPartial,
    };
  }
  return { ...now, items, fresh: page.items.filter((row) => !known.has(idOf(row))), problem: null };
}
