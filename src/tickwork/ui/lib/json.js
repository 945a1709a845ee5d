// JSON as other languages have it: whole numbers of any size stay what they are. A number here has 53 bits, and ids of
// 64 bits are common: shown or sent again by way of it, they would be others.

const LONG = /[:[,\s]-?\d{16,}/; // what may not fit
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

/** Read JSON. Whole numbers that do not fit are given as BigInt. @param {string} text @returns {any} */
export const parse = (text) => (LONG.test(text) || WHOLE.test(text) ? JSON.parse(text, kept) : JSON.parse(text));

/** Write JSON, those as they were. @param {any} value @param {number} [indent] @returns {string} */
export function stringify(value, indent) {
  const raw = /** @type {any} */ (JSON).rawJSON;
  return JSON.stringify(
    value,
    (_, one) => (typeof one === "bigint" ? (raw ? raw(String(one)) : Number(one)) : one),
    indent,
  );
}
