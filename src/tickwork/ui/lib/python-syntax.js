// Write values and calls as Python source.

import { stringify } from "./lossless-json.js";

const NAME = /^[A-Za-z_]\w*$/;
const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);

/** A JSON value. @param {any} value @returns {string} */
export function python(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([name, one]) => `${python(name)}: ${python(one)}`)
      .join(", ")}}`;
  }
  return stringify(value);
}

/**
 * Keyword arguments after positional ones; names that are no identifiers are passed by unpacking.
 * @param {string} called
 * @param {any[]} given
 * @param {Record<string, any>} named
 */
export function pythonCall(called, given, named) {
  const isPlain = Object.keys(named).every((name) => NAME.test(name) && !KEYWORDS.has(name));
  const said = isPlain
    ? Object.entries(named).map(([name, value]) => `${name}=${python(value)}`)
    : [`**${python(named)}`];
  return `${called}(${[...given.map(python), ...said].join(", ")})`;
}
