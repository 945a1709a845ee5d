// The router: the URL fragment holds the page and its entire state, so links can be shared and "back" works.

import { signal } from "../vendor/core.js";

/** @typedef {{path: string, query: Record<string, string>}} Place */

/** @returns {Place} */
function read() {
  const said = location.hash.replace(/^#/, "") || "/";
  const [path, query = ""] = said.split(/\?(.*)/s);
  return { path: path.startsWith("/") ? path : `/${path}`, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The current route. */
export const place = signal(read());

addEventListener("hashchange", () => (place.value = read()));

/** The URL of a route. @param {string} path @param {Record<string, any>} [query] */
export function href(path, query = {}) {
  const kept = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== "" && value !== false,
  );
  const said = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${said ? `?${said}` : ""}`;
}

/** Navigate with a new history entry. @param {string} path @param {Record<string, any>} [query] */
export function go(path, query = {}) {
  location.hash = href(path, query);
}

/**
 * Change the query part of the URL. By default the history entry is replaced; `push` adds one.
 * @param {Record<string, any>} changes
 * @param {{push?: boolean}} [how]
 */
export function setQuery(changes, { push = false } = {}) {
  const { path, query } = place.value;
  const next = href(path, { ...query, ...changes });
  if (next === href(path, query)) return;
  if (push) location.hash = next;
  else {
    history.replaceState(null, "", next);
    place.value = read();
  }
}

/**
 * Match a path with a pattern such as /jobs/:id; return its parameters or null. A last parameter with `*` may
 * contain slashes.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const parts = path.split("/");
  const rest = wanted.at(-1).endsWith("*");
  if (rest ? parts.length < wanted.length : parts.length !== wanted.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [at, one] of wanted.entries()) {
    if (one.startsWith(":")) {
      const isRest = one.endsWith("*");
      const said = isRest ? parts.slice(at).join("/") : parts[at];
      if (!said) return null;
      try {
        found[one.slice(1).replace("*", "")] = decodeURIComponent(said);
      } catch {
        return null;
      }
    } else if (one !== parts[at]) return null;
  }
  return found;
}
