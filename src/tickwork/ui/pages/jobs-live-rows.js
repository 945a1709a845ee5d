// Keep the displayed rows of a job list up to date, in place.

import { useMemo, useRef, useState } from "../vendor/core.js";
import { get } from "../lib/api.js";
import { useChanges } from "../lib/live.js";
import { inTurns } from "../lib/coalesce.js";

const MOST = 100; // maximum number of rows per request
const ENDED = new Set(["succeeded", "failed", "cancelled", "dropped", "expired"]);

/**
 * The current rows of a list. Changed rows are requested by id in one call; data that the list loads later takes
 * precedence.
 * @param {any[]} rows
 * @returns {{rows: any[], renew: () => void}}
 */
export function useCurrent(rows) {
  const [later, setLater] = useState(/** @type {Map<any, any>} */ (new Map())); // keyed by the rows of the list
  const told = useRef(/** @type {Set<string> | null} */ (new Set())); // ids of changed rows; null: unknown
  const listed = useRef(rows);
  listed.current = rows;
  const shown = rows.map((row) => later.get(row) || row);

  const look = async () => {
    const which = told.current;
    told.current = new Set();
    const ids = shown
      .filter((row) => (which ? which.has(row.id) : !ENDED.has(row.state)))
      .map((row) => row.id)
      .slice(0, MOST);
    if (!ids.length) return;
    const found = await get("/jobs", { id: ids, limit: ids.length }).catch(() => ({ items: [] }));
    const now = new Map(found.items.map((row) => [row.id, row]));
    setLater((before) => new Map(listed.current.map((row) => [row, now.get(row.id) || before.get(row)])));
  };
  const latest = useRef(look);
  latest.current = look;
  const renew = useMemo(() => inTurns(() => latest.current()), []);
  const concerns = (changes) => {
    const isVague = changes.reset || changes.is_partial;
    if (isVague) told.current = null;
    const changed = new Set(changes.job_ids || []);
    const ours = shown.filter((row) => changed.has(row.id));
    for (const row of ours) told.current?.add(row.id);
    return isVague || ours.length > 0;
  };
  useChanges(concerns, renew);
  return {
    rows: shown,
    renew() {
      told.current = null;
      return renew();
    },
  };
}
