// Parse the query language of the jobs page (`state:failed queue:mail age:>1h "timeout"`) into a filter of the API.

import { TEXTS } from "../texts/common.js";

/** @typedef {{at: number, end: number, field: string | null, value: string}} Word */
/** @typedef {{at: number, end: number, text: string, fix?: string}} Trouble */
/** @typedef {{text: string, words: Word[], filter: Record<string, any>, troubles: Trouble[]}} Query */

export const STATES = [
  "due",
  "delayed",
  "retrying",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "dropped",
  "expired",
];

/** The fields of a query: the parameter of the API and the meaning of each. */
export const FIELDS = {
  state: { parameter: "state", says: TEXTS.fieldState, values: [...STATES, "queued"] },
  queue: { parameter: "queue", says: TEXTS.fieldQueue },
  task: { parameter: "task", says: TEXTS.fieldTask },
  error: { parameter: "error", says: TEXTS.fieldError },
  age: { parameter: null, says: TEXTS.fieldAge, values: ["<1h", "<24h", "<7d", ">1h", ">1d"] },
  label: { parameter: "label", says: TEXTS.fieldLabel },
  key: { parameter: "key", says: TEXTS.fieldKey },
  collection: { parameter: "collection", says: TEXTS.fieldCollection },
  tenant: { parameter: "tenant", says: TEXTS.fieldTenant },
  worker: { parameter: "worker", says: TEXTS.fieldWorker },
  run: { parameter: "run_id", says: TEXTS.fieldRun },
  parent: { parameter: "parent_id", says: TEXTS.fieldParent },
  creator: { parameter: "creator", says: TEXTS.fieldCreator },
  is: { parameter: null, says: TEXTS.fieldIs, values: ["dead"] },
  after: { parameter: "created_after", says: TEXTS.fieldAfter },
  before: { parameter: "created_before", says: TEXTS.fieldBefore },
};

const MEANT = {
  tag: "label",
  labels: "label",
  status: "state",
  job: "task",
  name: "task",
  q: "queue",
  type: "task",
  created: "age",
  by: "creator",
  group: "collection",
};
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };
const WORD = /([A-Za-z_]+):("(?:\\.|[^"\\])*"?|[^\s"]*)|"(?:\\.|[^"\\])*"?|[^\s"]+/g;

/** Quote a text as one term of a query. @param {string} text */
export const quote = (text) => (/^[^\s":]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, "\\$&")}"`);
/** A field and its value. @param {string} field @param {string} value */
export const word = (field, value) => `${field}:${/[\s"]/.test(value) || !value ? quote(value) : value}`;

const plain = (said) =>
  said.startsWith('"') ? /^"((?:\\.|[^"\\])*)/s.exec(said)[1].replaceAll(/\\(.)/gs, "$1") : said;

/** @param {string} text @returns {Word[]} */
function wordsOf(text) {
  return [...text.matchAll(WORD)].map((found) => {
    const field = found[1] ? found[1].toLowerCase() : null;
    return { at: found.index, end: found.index + found[0].length, field, value: plain(field ? found[2] : found[0]) };
  });
}

/**
 * Parse a query. Ages are relative to `now`, in milliseconds. Terms that cannot be parsed do not restrict, and are
 * reported.
 * @param {string} text
 * @param {number} now
 * @returns {Query}
 */
export function parse(text, now) {
  const words = wordsOf(text);
  /** @type {Record<string, any>} */
  const filter = {};
  /** @type {Trouble[]} */
  const troubles = [];
  const free = words.filter((one) => one.field === null && one.value).map((one) => one.value);
  if (free.length) filter.q = free.join(" ");
  for (const one of words) {
    const trouble = one.field === null ? null : take(one, filter, now);
    if (trouble) troubles.push({ at: one.at, end: one.end, text: trouble, fix: fixOf(one) });
  }
  return { text, words, filter, troubles };
}

/** Add a term to a filter; return its error, if any. @returns {string | null} */
function take({ field, value }, filter, now) {
  const known = FIELDS[field];
  if (!known) return TEXTS.unknownField(field);
  if (!value) return TEXTS.emptyField(field, known.says);
  if (field === "age") return takeAge(value, filter, now);
  if (field === "is") {
    return value === "dead" ? put(filter, "dead", true, field) : TEXTS.unknownIs(value);
  }
  if (field === "state" && !known.values.includes(value)) {
    return TEXTS.unknownState(value, known.values.join(", "));
  }
  if (field === "after" || field === "before") return takeInstant(field, value, filter);
  return put(filter, known.parameter, value, field);
}

/** Suggest a correction for a term with an unknown field. @param {Word} word @returns {string | undefined} */
function fixOf({ field, value }) {
  if (FIELDS[field]) return undefined;
  const near = MEANT[field] || Object.keys(FIELDS).find((name) => name.startsWith(field) || field.startsWith(name));
  return near ? word(near, value) : quote(`${field}:${value}`);
}

function put(filter, parameter, value, field) {
  if (filter[parameter] !== undefined) return TEXTS.repeatedField(field);
  filter[parameter] = value;
  return null;
}

function takeAge(value, filter, now) {
  const said = /^([<>]?)=?(\d+(?:\.\d+)?)([smhdw])$/.exec(value);
  if (!said) {
    return TEXTS.badAge(value);
  }
  const at = new Date(now - Number(said[2]) * SECONDS[said[3]] * 1000).toISOString();
  return put(filter, said[1] === ">" ? "created_before" : "created_after", at, `age:${said[1]}`);
}

function takeInstant(field, value, filter) {
  const at = Date.parse(value);
  if (Number.isNaN(at)) return TEXTS.badTime(field, value, field);
  return put(filter, FIELDS[field].parameter, new Date(at).toISOString(), field);
}

/**
 * The value of a field in a query, if it occurs.
 * @param {string} text
 * @param {string} field
 * @returns {string | undefined}
 */
export const valueOf = (text, field) => wordsOf(text).find((one) => one.field === field)?.value;

/**
 * Return a query with a field set or removed.
 * @param {string} text
 * @param {string} field
 * @param {string | null} value
 */
export function withField(text, field, value) {
  const words = wordsOf(text);
  const said = value === null ? [] : [word(field, value)];
  const first = words.find((one) => one.field === field);
  const kept = words.flatMap((one) =>
    one.field !== field ? [text.slice(one.at, one.end)] : one === first ? said : [],
  );
  return [...kept, ...(first ? [] : said)].join(" ");
}

/** Return a query whose free text searches errors instead. @param {string} text */
export function wordsAsError(text) {
  const { filter, words } = parse(text, 0);
  const kept = words.filter((one) => one.field !== null).map((one) => text.slice(one.at, one.end));
  return [...kept, word("error", filter.q || "")].join(" ");
}

/** @typedef {{from: number, to: number, items: {insert: string, label: string, says?: string}[]}} Completion */

const MOST = 12;

/**
 * Completions at the caret. `known` has values of fields.
 * @param {string} text
 * @param {number} caret
 * @param {Record<string, string[]>} known
 * @returns {Completion}
 */
export function complete(text, caret, known) {
  const here = wordsOf(text).find((one) => one.at <= caret && caret <= one.end);
  if (here && here.field === null && text[here.at] === '"') return { from: caret, to: caret, items: [] };
  if (here?.field) {
    const said = plain(text.slice(here.at + here.field.length + 1, caret)).toLowerCase();
    const values = known[here.field] || FIELDS[here.field]?.values || [];
    const found = values.filter((value) => value.toLowerCase().includes(said) && value.toLowerCase() !== said);
    const begins = (value) => value.toLowerCase().startsWith(said);
    const items = [...found.filter(begins), ...found.filter((value) => !begins(value))];
    return {
      from: here.at,
      to: here.end,
      items: items.slice(0, MOST).map((value) => ({ insert: `${word(here.field, value)} `, label: value })),
    };
  }
  const said = here ? text.slice(here.at, caret).toLowerCase() : "";
  const items = Object.entries(FIELDS).filter(([name]) => name.startsWith(said));
  return {
    from: here ? here.at : caret,
    to: here ? here.end : caret,
    items: items.map(([name, { says }]) => ({ insert: `${name}:`, label: `${name}:`, says })),
  };
}
