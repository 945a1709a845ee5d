// Store the lines of a log as they arrive, so that showing a part of 100,000 lines is as cheap as of 50.

import { isStyled, pieces, plainText } from "./ansi.js";

const LEVEL = /^\s*(?:\[?\d[\dT:.,\-+Z ]*\]?\s*)?\[?(DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b/;
const RANKS = { DEBUG: 1, INFO: 2, WARN: 3, WARNING: 3, ERROR: 4, CRITICAL: 4, FATAL: 4 };
const CONTINUES = /^(?:\s|Traceback \(|[\w.]+(?:Error|Exception)\b)/;

export class Lines {
  constructor() {
    /** @type {string[]} */
    this.texts = [];
    /** @type {string[]} The style that each line begins in. */
    this.styles = [];
    /** @type {number[]} */
    this.ranks = [];
    /** @type {number[]} */
    this.ats = [];
    /** @type {number[]} */
    this.attempts = [];
    this.isOpen = false; // the last line is incomplete
    this.style = "";
  }

  get length() {
    return this.texts.length;
  }

  /** @param {{attempt: number, at: string, text: string}} piece */
  add(piece) {
    const at = Date.parse(piece.at);
    if (this.attempts.at(-1) !== piece.attempt) {
      this.isOpen = false;
      this.style = "";
    }
    const said = piece.text.replaceAll("\t", "    ").split("\n");
    for (const [index, text] of said.entries()) {
      const isLast = index === said.length - 1;
      if (isLast && text === "") this.isOpen = false;
      else if (index === 0 && this.isOpen) this.go(text);
      else this.begin(text, at, piece.attempt);
      if (isLast && text !== "") this.isOpen = true;
    }
  }

  /** The last line is incomplete. @param {string} text */
  go(text) {
    const last = this.texts.length - 1;
    const whole = this.texts[last] + text;
    this.texts[last] = afterReturn(whole);
    this.style = isStyled(whole) ? pieces(whole, this.styles[last]).style : this.style;
  }

  /** @param {string} text @param {number} at @param {number} attempt */
  begin(text, at, attempt) {
    const level = LEVEL.exec(isStyled(text) ? plainText(text) : text);
    const before = this.attempts.at(-1) === attempt ? this.ranks.at(-1) : 0;
    this.texts.push(afterReturn(text));
    this.styles.push(this.style);
    this.ranks.push(level ? RANKS[level[1]] : CONTINUES.test(text) ? before : 0);
    this.ats.push(at);
    this.attempts.push(attempt);
    if (isStyled(text)) this.style = pieces(text, this.style).style;
  }

  /**
   * Indexes of the lines of at least a level that contain a text; null: all lines.
   * @param {number} rank
   * @param {string} [needle]
   * @returns {number[] | null}
   */
  which(rank, needle = "") {
    if (!rank && !needle) return null;
    const wanted = needle.toLowerCase();
    const found = [];
    for (let at = 0; at < this.texts.length; at += 1) {
      if (this.ranks[at] >= rank && (!wanted || plainText(this.texts[at]).toLowerCase().includes(wanted))) {
        found.push(at);
      }
    }
    return found;
  }
}

/** The visible part of an overwritten line: progress bars write "10 %\r20 %\r". @param {string} text */
function afterReturn(text) {
  const line = text.endsWith("\r") ? text.slice(0, -1) : text;
  return line.slice(line.lastIndexOf("\r") + 1);
}
