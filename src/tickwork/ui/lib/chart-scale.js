// Choose the scale of a chart axis: its maximum and a few round tick values.

import { zone } from "./browser-prefs.js";
import { duration } from "./time.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIMES = [
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
];

/**
 * @typedef {{ticks: number[], of: (value: number) => number}} Scale `of` tells where a value stands: 0 below, 1 above.
 */

/**
 * A linear scale from zero with round steps, which are integers for counts.
 * @param {number} most
 * @param {number} [steps]
 * @returns {Scale}
 */
export function linear(most, steps = 4) {
  const least = Math.max(1, most / steps);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
  const top = Math.max(1, Math.ceil(most / step)) * step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step);
  return { ticks, of: (value) => value / top };
}

const DURATIONS = [
  1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000, 86_400_000, 864_000_000,
];

/**
 * A logarithmic scale for durations in seconds, so that milliseconds and hours are both visible.
 * @param {number} least
 * @param {number} most
 * @returns {Scale}
 */
export function durations(least, most) {
  const from = Math.max(
    0,
    DURATIONS.findLastIndex((one) => one <= least),
  );
  const found = DURATIONS.findIndex((one) => one >= most);
  const to = Math.max(from + 1, found < 0 ? DURATIONS.length - 1 : found);
  const all = DURATIONS.slice(from, to + 1);
  const [low, high] = [Math.log(all[0]), Math.log(all.at(-1))];
  const ticks = all.length > 6 ? all.filter((_, at) => (all.length - 1 - at) % 2 === 0) : all;
  return { ticks, of: (value) => Math.min(1, Math.max(0, (Math.log(Math.max(value, all[0])) - low) / (high - low))) };
}

/** Format a duration for an axis: round, without fractions. @param {number} seconds */
export const durationTick = (seconds) =>
  seconds < 0.001 ? `${Math.round(seconds * 1e6)} µs` : duration(seconds).replace(".0 ", " ");

/**
 * Return round instants between two, in the display zone, at most as many as fit.
 * @param {number} from
 * @param {number} to
 * @param {number} room
 * @returns {{ticks: number[], step: number}}
 */
export function instants(from, to, room) {
  const step = TIMES.find((one) => (to - from) / one <= room) || TIMES.at(-1);
  const ahead = zone.value === "utc" ? 0 : -new Date(to).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((from + ahead) / step) * step - ahead; at <= to; at += step) ticks.push(at);
  return { ticks, step };
}
