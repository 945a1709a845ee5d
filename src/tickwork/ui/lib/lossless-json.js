// Parse and write JSON without loss: integers that do not fit the 53 bits of a number remain exact.

const LONG = /[:[,\s]-?\d{16,}/; // may exceed 53 bits
const WHOLE = /^-?\d+$/;

/**
 * @param {string} _
 * @param {any} value
 * @param {{source?: string}} [context] what was written; older browsers do not tell
 */
function kept(_, value, context) {
  const said = context?.source;
  return typeof value === "number" && said && !Number.isSafeInteger(value) && WHOLE.test(said) ? BigInt(said) : value;
}

/** Parse JSON. Integers beyond 53 bits become BigInt. @param {string} text @returns {any} */
export const parse = (text) => (LONG.test(text) || WHOLE.test(text) ? JSON.parse(text, kept) : JSON.parse(text));

/** Write JSON, BigInt as integers. @param {any} value @param {number} [indent] @returns {string} */
export function stringify(value, indent) {
  const raw = /** @type {any} */ (JSON).rawJSON;
  return JSON.stringify(
    value,
    (_, one) => (typeof one === "bigint" ? (raw ? raw(String(one)) : Number(one)) : one),
    indent,
  );
}
