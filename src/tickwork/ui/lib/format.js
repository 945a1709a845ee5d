// Format numbers, sizes and names.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1,204 @param {number | null | undefined} value */
export const count = (value) => (value === null || value === undefined ? "" : whole.format(value));
/** 1.2K @param {number | null | undefined} value */
export const brief = (value) =>
  value === null || value === undefined ? "" : value < 10000 ? whole.format(value) : short.format(value);
/** A count that may be a lower bound. @param {number} value @param {boolean} [isBounded] */
export const atLeast = (value, isBounded) => `${brief(value)}${isBounded ? "+" : ""}`;
/** 12 % @param {number} share */
export const percent = (share) => `${share > 0 && share < 0.1 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
/** "1 job", "3 jobs" @param {number} number @param {string} word @param {string} [words] */
export const many = (number, word, words) => `${count(number)} ${number === 1 ? word : words || `${word}s`}`;

const SIZES = ["B", "KB", "MB", "GB", "TB"];
/** @param {number} size */
export function bytes(size) {
  let value = size;
  let unit = 0;
  while (value >= 1000 && unit < SIZES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${SIZES[unit]}`;
}

/** The end of an id, enough to distinguish ids on one page. @param {string} id */
export const shortId = (id) => (id.length > 12 ? `…${id.slice(-8)}` : id);
