// Preferences that this browser stores: theme, columns, page sizes, saved views. Never data of the store.

import { effect, signal } from "../vendor/core.js";

const PREFIX = "tickwork.";

function stored(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    const value = text === null ? otherwise : JSON.parse(text);
    return typeof value === typeof otherwise && Array.isArray(value) === Array.isArray(otherwise) ? value : otherwise;
  } catch {
    return otherwise; // storage is disabled, or contains an invalid value
  }
}

/** A signal whose value is stored in this browser. @template T @param {string} name @param {T} otherwise */
export function remembered(name, otherwise) {
  const kept = signal(/** @type {T} */ (stored(name, otherwise)));
  effect(() => {
    const text = JSON.stringify(kept.value);
    try {
      localStorage.setItem(PREFIX + name, text);
    } catch {
      // Storage is disabled or full: the value lasts until the page is closed.
    }
  });
  return kept;
}

/** "auto", "light" or "dark". */
export const theme = remembered("theme", "auto");
/** "local" or "utc": the zone of displayed times. */
export const zone = remembered("zone", "local");
export const pageSize = remembered("page-size", 50);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
