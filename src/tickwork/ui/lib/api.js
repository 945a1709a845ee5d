// Calls of the REST API.

import { parse, stringify } from "./lossless-json.js";
import { TEXTS } from "../texts/common.js";

const ROOT = new URL("../../../api/v1/", import.meta.url);

/** An error response (RFC 9457): `code` for programs, `detail` for people. */
export class Problem extends Error {
  /** @param {number} status @param {{code?: string, detail?: string, errors?: any[], title?: string}} body */
  constructor(status, body) {
    super(body.detail || body.title || TEXTS.serverStatus(status));
    this.status = status;
    this.code = body.code || "unknown";
    this.errors = body.errors || [];
  }
}

const UNREACHABLE = {
  code: "unreachable",
  detail: TEXTS.serverUnreachable,
};

let whenStranger = () => {};
/** Set the callback for responses that say the session has ended. @param {() => void} callback */
export const onStranger = (callback) => (whenStranger = callback);

/**
 * Return the URL of an API path with parameters. Empty parameters are omitted; lists are repeated.
 * @param {string} path
 * @param {Record<string, any>} [query]
 */
export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "" && one !== false) url.searchParams.append(name, String(one));
    }
  }
  return url;
}

/** Encode a text as one part of a path. @param {string} text */
export const part = (text) => encodeURIComponent(text);

/**
 * @param {string} method
 * @param {string} path
 * @param {{query?: Record<string, any>, body?: any, signal?: AbortSignal, headers?: Record<string, string>}} [more]
 */
export async function call(method, path, { query, body, signal, headers = {} } = {}) {
  /** @type {RequestInit} */
  const request = { method, signal, credentials: "same-origin", headers: { ...headers, Accept: "application/json" } };
  if (body !== undefined) {
    request.body = stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(address(path, query), request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, UNREACHABLE);
  }
  if (!answer.ok) throw await problemOf(answer, path);
  return answer;
}

async function problemOf(answer, path) {
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "/session") whenStranger();
  return new Problem(answer.status, told);
}

async function read(answer) {
  return answer.status === 204 ? null : parse(await answer.text());
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = async (path, query, signal) => read(await call("GET", path, { query, signal }));
/** @param {string} path @param {any} [body] */
export const post = async (path, body) => read(await call("POST", path, { body: body ?? undefined }));
/** @param {string} path @param {any} body @param {Record<string, string>} [headers] */
export const put = async (path, body, headers) => read(await call("PUT", path, { body, headers }));
/** @param {string} path @param {any} body */
export const patch = async (path, body) => read(await call("PATCH", path, { body }));
/** @param {string} path */
export const remove = async (path) => read(await call("DELETE", path));
