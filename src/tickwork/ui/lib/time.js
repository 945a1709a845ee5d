// Format instants and durations. Relative times are updated by one clock for the whole page.

import { signal } from "../vendor/core.js";
import { zone } from "./browser-prefs.js";

/** The server's current time as last known. Updated once a second while the page is visible. */
export const now = signal(Date.now());
let ahead = 0;

/** Set the server's time. @param {string} at */
export function serverSays(at) {
  const difference = Date.parse(at) - Date.now();
  if (Math.abs(difference - ahead) > 2000) ahead = Math.abs(difference) < 2000 ? 0 : difference;
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + ahead;
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now() + ahead;
});

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** A duration in at most two units: 1.4 s, 3m 20s, 2d 4h. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const size = Math.abs(seconds);
  if (size < 0.0005) return "0 ms";
  if (size < 0.01) return `${(size * 1000).toFixed(1)} ms`;
  if (size < 1) return `${Math.round(size * 1000)} ms`;
  if (size < 60) return `${size < 10 ? size.toFixed(1) : Math.round(size)} s`;
  let left = Math.round(size);
  const said = [];
  for (const [name, length] of UNITS) {
    const count = Math.floor(left / Number(length));
    left -= count * Number(length);
    if (count || said.length) said.push(`${count}${name}`);
    if (said.length === 2) break;
  }
  return said.filter((one) => !/^0/.test(one)).join(" ");
}

/** Seconds between two instants. @param {string | null} from @param {string | null} [to] */
export const between = (from, to) => (from ? ((to ? Date.parse(to) : now.value) - Date.parse(from)) / 1000 : null);

/** "12s ago", "in 4m". @param {string} at */
export function relative(at) {
  const seconds = (Date.parse(at) - now.value) / 1000;
  const size = Math.abs(seconds);
  if (size < 1.5) return "now";
  const [name, length] = UNITS.find(([, unit]) => size >= Number(unit)) || UNITS[3];
  const said = size > 86400 * 60 ? dayOf(at) : `${Math.floor(size / Number(length))}${name}`;
  if (size > 86400 * 60) return said;
  return seconds < 0 ? `${said} ago` : `in ${said}`;
}

const made = new Map();
function format(options, timeZone) {
  const key = JSON.stringify([options, timeZone]);
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone, hourCycle: "h23" }));
  return made.get(key);
}

const DAY = /** @type {const} */ ({ year: "numeric", month: "short", day: "numeric" });
const CLOCK = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const chosen = () => (zone.value === "utc" ? "UTC" : undefined);

/** @param {string | number} at */
export const dayOf = (at) => format(DAY, chosen()).format(new Date(at));
/** Mon 16 @param {string | number} at */
export const dateOf = (at) => format({ weekday: "short", day: "numeric" }, chosen()).format(new Date(at));
/** 18:40:02 @param {string | number} at */
export const clockOf = (at) => format(CLOCK, chosen()).format(new Date(at));
/** 18:40 @param {string | number} at */
export const minuteOf = (at) => format({ hour: "2-digit", minute: "2-digit" }, chosen()).format(new Date(at));
/** 18:40:02.114 @param {string | number} at */
export const exactClock = (at) => format({ ...CLOCK, fractionalSecondDigits: 3 }, chosen()).format(new Date(at));

/** A date and time; today's date is omitted. @param {string | number} at */
export function moment(at) {
  const day = dayOf(at);
  return day === dayOf(now.value)
    ? clockOf(at)
    : `${format({ month: "short", day: "numeric" }, chosen()).format(new Date(at))} ${minuteOf(at)}`;
}

/** The lines of a tooltip: local, UTC, and the zone of a schedule. @param {string} at @param {string} [itsZone] */
export function explained(at, itsZone) {
  const date = new Date(at);
  const whole = { weekday: "short", ...DAY, ...CLOCK };
  const lines = [`local  ${format(whole, undefined).format(date)}`, `UTC    ${format(whole, "UTC").format(date)}`];
  if (itsZone && itsZone !== "UTC") {
    try {
      lines.push(`${itsZone}  ${format(whole, itsZone).format(date)}`);
    } catch {
      // a time zone that this browser does not know
    }
  }
  return lines.join("\n");
}
