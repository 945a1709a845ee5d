// The session: the current user and permissions. Pages hide forbidden actions; the server checks them anyway.

import { computed, signal } from "../vendor/core.js";
import { call, get, onStranger, post } from "./api.js";

/** @typedef {{who: string, scopes: string[], expires_at: string | null}} Session */

/** undefined: not known yet; null: no user. */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));
const scopes = computed(() => new Set(session.value?.scopes || []));

/**
 * Whether the one who looks may do what takes this scope.
 * @param {"read"|"enqueue"|"operate"|"shell"|"use-secrets"|"work"|"metrics"|"admin"} scope
 */
export const may = (scope) => scopes.value.has("admin") || scopes.value.has(scope);

onStranger(() => {
  if (session.value) session.value = null;
});

/** Ask who we are. A token in the fragment (`#token=...`, as `tickwork dev` prints it) is used up first. */
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

/** Ask again whether the server still knows us: a stream that is refused does not say why. */
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
