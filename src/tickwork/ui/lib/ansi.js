// Parse ANSI colour codes of logs into pieces of text with CSS classes. No text is ever parsed as HTML.

/** @typedef {{text: string, class: string}} Piece */

// All escape sequences (colours, cursor movements, window titles) and control characters.
const ESCAPES =
  /\x1b\[([0-9;:]*)([ -/]*[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]/g;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** Return a text without escape sequences. @param {string} line */
export const plainText = (line) => (/[\x00-\x08\x0b-\x1f\x7f]/.test(line) ? line.replace(ESCAPES, "") : line);

/** Whether a line contains escape sequences. @param {string} line */
export const isStyled = (line) => line.includes("\x1b");

/**
 * Split a line into styled pieces, starting with a style; also return the style at its end.
 * @param {string} line
 * @param {string} [style]
 * @returns {{pieces: Piece[], style: string}}
 */
export function pieces(line, style = "") {
  /** @type {Piece[]} */
  const found = [];
  let from = 0;
  for (const escape of line.matchAll(ESCAPES)) {
    if (escape.index > from) found.push({ text: line.slice(from, escape.index), class: style });
    from = escape.index + escape[0].length;
    if (escape[2] === "m") style = styled(style, escape[1]);
  }
  if (from < line.length) found.push({ text: line.slice(from), class: style });
  return { pieces: found, style };
}

/** Return a style after applying codes. @param {string} style @param {string} said */
function styled(style, said) {
  const on = new Set(style ? style.split(" ") : []);
  const codes = said.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 38 || code === 48) at += paint(on, codes, at);
    else apply(on, code);
  }
  return [...on].join(" ");
}

function drop(on, pattern) {
  for (const one of on) if (pattern.test(one)) on.delete(one);
}

const FORE = /^ansi-(?!on-)(black|red|green|yellow|blue|magenta|cyan|white)/;
const BACK = /^ansi-on-/;

function apply(on, code) {
  if (code === 0) on.clear();
  else if (code === 1) on.add("ansi-bold");
  else if (code === 2) on.add("ansi-faint");
  else if (code === 3) on.add("ansi-italic");
  else if (code === 4) on.add("ansi-underline");
  else if (code === 22) drop(on, /^ansi-(bold|faint)$/);
  else if (code === 23) on.delete("ansi-italic");
  else if (code === 24) on.delete("ansi-underline");
  else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour(on, FORE, `ansi-${NAMES[code % 10]}`);
  else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) colour(on, BACK, `ansi-on-${NAMES[code % 10]}`);
  else if (code === 39) drop(on, FORE);
  else if (code === 49) drop(on, BACK);
}

function colour(on, which, name) {
  drop(on, which);
  on.add(name);
}

/**
 * Map a colour by number or RGB to the nearest of the eight. Returns the number of codes used.
 * @param {Set<string>} on
 * @param {number[]} codes
 * @param {number} at
 */
function paint(on, codes, at) {
  const isBack = codes[at] === 48;
  const isWhole = codes[at + 1] === 2;
  const rgb = isWhole ? codes.slice(at + 2, at + 5) : cube(codes[at + 2] ?? 7);
  colour(on, isBack ? BACK : FORE, `ansi-${isBack ? "on-" : ""}${nearest(rgb)}`);
  return isWhole ? 4 : 2;
}

function cube(number) {
  if (number < 16) return [number & 1, number & 2, number & 4].map((bit) => (bit ? 200 : 0));
  if (number >= 232) return Array(3).fill((number - 232) * 10 + 8);
  const index = number - 16;
  return [Math.floor(index / 36), Math.floor(index / 6) % 6, index % 6].map((part) => part * 51);
}

function nearest(rgb) {
  const most = Math.max(...rgb);
  if (most < 60) return "black";
  return NAMES[rgb.reduce((sum, part, bit) => sum + (part > most * 0.6 ? 1 << bit : 0), 0)];
}
