// The session: the current user and permissions. Pages hide forbidden actions; the server checks them anyway.

import { computed, signal } from "../vendor/core.js";
import { call, get, onStranger, post } from "./api.js";

/** @typedef {{who: string, scopes: string[], expires_at: string | null}} Session */

/** undefined: not loaded yet; null: not logged in. */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));
const scopes = computed(() => new Set(session.value?.scopes || []));

/**
 * Whether the current user has a scope.
 * @param {"read"|"enqueue"|"operate"|"shell"|"use-secrets"|"work"|"metrics"|"admin"} scope
 */
export const may = (scope) => scopes.value.has("admin") || scopes.value.has(scope);

onStranger(() => {
  if (session.value) session.value = null;
});

/** Load the session. A token in the fragment (`#token=...`, as `tickwork dev` prints it) is exchanged first. */
export async function begin() {
  const token = /^#token=([^&]+)/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", "#/");
    dispatchEvent(new HashChangeEvent("hashchange"));
    await logIn({ token: decodeURIComponent(token) }).catch(() => {});
  }
  try {
    session.value = await get("/session");
  } catch (problem) {
    if (problem.status !== 401) throw problem;
    session.value = null;
  }
}

/** Check the session again: a refused stream does not tell its reason. */
export async function recheck() {
  const problem = await get("/session").then(
    () => null,
    (refused) => refused,
  );
  if (problem?.status === 401 && session.peek()) session.value = null;
}

/** @param {{token: string} | {user: string, password: string}} said */
export async function logIn(said) {
  session.value = await post("/session", said);
}

export async function logOut() {
  await call("DELETE", "/session").catch(() => {});
  session.value = null;
}
