// What pages show of the store: read, kept while it is read again, and renewed when the stream says that it changed.

import { useCallback, useEffect, useRef, useState } from "../vendor/core.js";
import { get } from "./api.js";
import { paused, useChanges } from "./live.js";

const never = () => false;

/** Renewals, one at a time, and one more when another was asked for meanwhile. A read that is under way ends first:
 * where answers take longer than changes come, it would else be begun anew for ever.
 * @param {{current: Promise<void>}} pending @param {() => Promise<void>} read */
function useRenewal(pending, read) {
  const turn = useRef({ isTaken: false, isWanted: false, read });
  turn.current.read = read;
  return useCallback(async () => {
    const mine = turn.current;
    mine.isWanted = true;
    if (mine.isTaken) return;
    mine.isTaken = true;
    while (mine.isWanted) {
      await pending.current;
      mine.isWanted = false;
      await mine.read();
    }
    mine.isTaken = false;
  }, []);
}

/** Read a path of the API, again whenever it or its parameters change, or the stream tells of something that concerns it.
 *
 * What was read stays while it is read again (`isStale`), and while the server does not answer (`problem`).
 * A path of null reads nothing. `every`: also every so many seconds, for what the stream does not tell.
 * `pace`: however much the stream tells, not more often than every so many seconds, for what changes slowly or is dear to read.
 * @param {string | null} path @param {{query?: Record<string, any>, live?: (changes: any) => boolean, every?: number, pace?: number}} [how]
 * @returns {{data: any, problem: any, isLoading: boolean, isStale: boolean, refresh: () => Promise<void>, set: (data: any) => void}} */
export function useResource(path, { query, live = never, every = 0, pace = 1 } = {}) {
  const key = path === null ? null : JSON.stringify([path, query]);
  const [held, setHeld] = useState({ key: null, data: undefined, problem: null });
  const current = useRef(/** @type {AbortController | null} */ (null));
  const pending = useRef(Promise.resolve());
  const wanted = useRef(key);
  wanted.current = key;

  const read = async () => {
    if (key === null) return;
    current.current?.abort();
    const mine = (current.current = new AbortController());
    try {
      const data = await get(path, query, mine.signal);
      if (wanted.current === key) setHeld({ key, data, problem: null });
    } catch (problem) {
      if (problem.name === "AbortError" || wanted.current !== key) return;
      setHeld((before) => ({ key, data: before.key === key || problem.status === 0 ? before.data : undefined, problem }));
    }
  };
  const refresh = useCallback(() => (pending.current = read()), [key]);
  const renew = useRenewal(pending, refresh);

  useEffect(() => {
    refresh();
    return () => current.current?.abort();
  }, [refresh]);
  useChanges(live, renew, pace * 1000);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => !document.hidden && !paused.value && renew(), every * 1000);
    return () => clearInterval(timer);
  }, [every]);

  const isStale = held.key !== key;
  const set = useCallback((data) => setHeld({ key, data, problem: null }), [key]);
  return { data: held.data, problem: isStale ? null : held.problem, isLoading: held.data === undefined && !held.problem, isStale, refresh, set };
}

/** A list that is read a page at a time and does not move while it is read.
 *
 * Rows that are shown are renewed where they stand. New ones are counted (`fresh`) and come when asked for (`showFresh`).
 * `more` reads on. `idOf` tells rows apart.
 * @param {string} path @param {{query?: Record<string, any>, live?: (changes: any) => boolean, idOf?: (row: any) => string, limit?: number}} [how] */
export function useList(path, { query = {}, live = never, idOf = (row) => row.id, limit = 50 } = {}) {
  const key = JSON.stringify([path, query, limit]);
  const [held, setHeld] = useState({ key: "", items: /** @type {any[]} */ ([]), next: null, fresh: /** @type {any[]} */ ([]), problem: null, isPartial: false });
  const current = useRef(/** @type {AbortController | null} */ (null));
  const pending = useRef(Promise.resolve());
  const shown = useRef(held);
  shown.current = held;

  const read = async (mode) => {
    current.current?.abort();
    const mine = (current.current = new AbortController());
    const before = shown.current.key === key ? shown.current : null;
    try {
      const cursor = mode === "more" ? before?.next : query.cursor;
      const page = await someOf(path, { ...query, limit, cursor }, mine.signal, mode === "renew" ? 1 : LOOKS);
      setHeld((now) => joined(mode, now.key === key ? now : null, page, key, idOf));
    } catch (problem) {
      if (problem.name !== "AbortError") setHeld((now) => ({ ...now, key, items: now.key === key ? now.items : [], problem }));
    }
  };
  const load = useCallback((mode) => (pending.current = read(mode)), [key]);
  const renew = useRenewal(pending, () => load(shown.current.key === key && shown.current.items.length ? "renew" : "first"));
  useEffect(() => {
    load("first");
    return () => current.current?.abort();
  }, [load]);
  useChanges(live, renew);

  const showFresh = useCallback(() => {
    setHeld((now) => ({ ...now, items: [...now.fresh, ...now.items], fresh: [] }));
  }, []);
  const isStale = held.key !== key;
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
    renew: () => load("renew"),
    showFresh,
  };
}

const LOOKS = 10;

/** A page of a list, or the next ones, while there is nothing in them: a search looks at so many rows at a time. */
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
  if (mode === "more") return { ...now, items: [...items, ...page.items.filter((row) => !known.has(idOf(row)))], next, problem: null, isPartial };
  return { ...now, items, fresh: page.items.filter((row) => !known.has(idOf(row))), problem: null };
}
