// Parse Python tracebacks into exceptions and frames.

/** @typedef {{file: string, line: number, name: string, code: string[], isOwn: boolean}} Frame */
/** @typedef {{frames: Frame[], error: string, kind: string, says: string, because: string | null}} Raised */

const BEGINS = "Traceback (most recent call last):";
const FRAME = /^ {2}File "(.+)", line (\d+)(?:, in (.+))?$/;
const BETWEEN = {
  "During handling of the above exception, another exception occurred:":
    "during its handling, another exception occurred",
  "The above exception was the direct cause of the following exception:": "direct cause of",
};
const LIBRARY =
  /[\\/](?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python3|^<frozen |[\\/]tickwork[\\/](?:worker|core|testing)/;
const KIND = /^([A-Za-z_][\w.]*)(?:: ?([\s\S]*))?$/;

/**
 * Parse a traceback into exceptions, the last one first; null if it cannot be parsed.
 * @param {string} text
 * @returns {Raised[] | null}
 */
export function readTraceback(text) {
  if (!text.startsWith(BEGINS)) return null;
  /** @type {Raised[]} */
  const found = [];
  /** @type {string | null} */
  let because = null;
  for (const part of text.split(/\n\n(?=During handling of|The above exception was|Traceback \()/)) {
    if (BETWEEN[part]) because = BETWEEN[part];
    else {
      const raised = readOne(part);
      if (!raised) return null;
      if (found.length) found[0].because = because;
      found.unshift(raised);
      because = null;
    }
  }
  return found;
}

function readOne(part) {
  const lines = part.split("\n");
  if (lines[0] !== BEGINS) return null;
  /** @type {Frame[]} */
  const frames = [];
  let at = 1;
  for (; at < lines.length && lines[at].startsWith("  "); at += 1) {
    const said = FRAME.exec(lines[at]);
    if (said) {
      frames.push({
        file: said[1],
        line: Number(said[2]),
        name: said[3] || "",
        code: [],
        isOwn: !LIBRARY.test(said[1]),
      });
    } else if (frames.length) frames.at(-1).code.push(lines[at].slice(4));
  }
  const error = lines.slice(at).join("\n");
  const kind = KIND.exec(error);
  return { frames, error, kind: kind?.[1] || "", says: kind ? kind[2] || "" : error, because: null };
}

/** Group frames: the user's own frames one by one, consecutive library frames together. @param {Frame[]} frames */
export function grouped(frames) {
  /** @type {{isOwn: boolean, frames: Frame[]}[]} */
  const groups = [];
  for (const frame of frames) {
    const last = groups.at(-1);
    if (last && last.isOwn === frame.isOwn) last.frames.push(frame);
    else groups.push({ isOwn: frame.isOwn, frames: [frame] });
  }
  return groups;
}

/** The end of a path: its file and some parent folders. @param {string} file */
export const shortPath = (file) => file.split(/[\\/]/).slice(-3).join("/");
