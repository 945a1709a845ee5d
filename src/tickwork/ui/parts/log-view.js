// A scrolling view of log lines that renders only the visible ones.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { pieces, plainText } from "../lib/ansi.js";
import { exactClock } from "../lib/time.js";

const ROW = 19; // pixels; the same in jobs.css
const AROUND = 12; // rows that are drawn beyond the visible part
const NEAR = 200; // distance from the end, in rows, at which more is loaded

/**
 * The first row of each line when long lines are wrapped.
 * @param {any} lines
 * @param {number[] | null} which
 * @param {number} columns
 */
function folded(lines, which, columns) {
  const size = which ? which.length : lines.length;
  const before = new Uint32Array(size + 1);
  for (let at = 0; at < size; at += 1) {
    const width = plainText(lines.texts[which ? which[at] : at]).length;
    before[at + 1] = before[at] + Math.max(1, Math.ceil(width / columns));
  }
  return before;
}

/** The line that a row belongs to. @param {Uint32Array} before @param {number} row */
function lineAt(before, row) {
  let low = 0;
  let high = before.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (before[middle] <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * @param {{lines: import("../lib/log-lines.js").Lines, version: number, which: number[] | null, wraps: boolean,
 *   follows: boolean, onFollow: (yes: boolean) => void, needle: string, goal: number | null, onNearEnd: () => void,
 *   label: string}} props
 */
export function Log({ lines, version, which, wraps, follows, onFollow, needle, goal, onNearEnd, label }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState({ top: 0, height: 600, columns: 120 });
  const own = useRef(-1); // the position of our own scrolling
  const size = which ? which.length : lines.length;
  const before = useMemo(
    () => (wraps ? folded(lines, which, seen.columns) : null),
    [wraps, which, wraps && version, wraps && seen.columns],
  );
  const rows = before ? before[size] : size;

  useEffect(() => {
    const log = box.current;
    const measured = new ResizeObserver(() =>
      setSeen((now) => ({ ...now, height: log.clientHeight, columns: columnsOf(log) })),
    );
    measured.observe(log);
    return () => measured.disconnect();
  }, []);
  const scrollTo = (top) => {
    own.current = Math.max(0, Math.min(top, box.current.scrollHeight - box.current.clientHeight));
    box.current.scrollTop = own.current;
  };
  useLayoutEffect(() => {
    if (follows) scrollTo(rows * ROW);
  }, [follows, rows, seen.height]);
  useLayoutEffect(() => {
    if (goal !== null) scrollTo((before ? before[goal] : goal) * ROW - seen.height / 2);
  }, [goal]);
  useEffect(() => {
    if (seen.top / ROW + NEAR > rows - seen.height / ROW) onNearEnd();
  }, [seen.top, rows]);

  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    setSeen((now) => ({ ...now, top: scrollTop, height: clientHeight }));
    if (Math.abs(scrollTop - own.current) < 2) return;
    own.current = -1;
    onFollow(scrollTop + clientHeight > scrollHeight - ROW);
  };
  const first = Math.max(0, Math.floor(seen.top / ROW) - AROUND);
  const last = Math.min(rows, Math.ceil((seen.top + seen.height) / ROW) + AROUND);
  const shown = [];
  for (let row = first; row < last;) {
    const place = before ? lineAt(before, row) : row;
    const index = which ? which[place] : place;
    const from = before ? before[place] : row;
    shown.push(html`
      <${Line}
        key=${index}
        lines=${lines}
        index=${index}
        text=${lines.texts[index]}
        top=${from * ROW}
        columns=${before ? seen.columns : 0}
        needle=${needle}
        isGoal=${place === goal}
        isFirst=${index === 0 || lines.attempts[index] !== lines.attempts[index - 1]}
      />
    `);
    row = before ? before[place + 1] : row + 1;
  }
  return html`
    <div
      class="log ${wraps ? "wraps" : ""}"
      ref=${box}
      tabindex="0"
      role="log"
      aria-live="off"
      aria-label=${label}
      onScroll=${scrolled}
    >
      <div class="log-all" style=${{ height: `${rows * ROW}px` }}>${shown}</div>
    </div>
  `;
}

/** The number of characters that fit in a row. */
function columnsOf(box) {
  const probe = /** @type {HTMLElement | null} */ (box.querySelector(".log-text"));
  if (!probe) return 120;
  const style = getComputedStyle(probe);
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.font = `${style.fontSize} ${style.fontFamily}`;
  return Math.max(20, Math.floor((probe.clientWidth / canvas.measureText("0".repeat(100)).width) * 100) - 1);
}

function Line({ lines, index, text, top, columns, needle, isGoal, isFirst }) {
  const at = lines.ats[index];
  const drawn = pieces(text, lines.styles[index]).pieces;
  return html`
    <div
      class="log-line"
      data-rank=${lines.ranks[index] || undefined}
      data-goal=${isGoal || undefined}
      data-first=${isFirst && index > 0 ? "true" : undefined}
      style=${{ transform: `translateY(${top}px)` }}
    >
      <span class="log-gutter">
        <span class="log-number">${lines.attempts[index] > 1 || isFirst ? `#${lines.attempts[index]}` : ""}</span>
        <time>${exactClock(at)}</time>
      </span>
      <span class="log-text">
        ${(columns ? cut(drawn, columns) : [drawn]).map(
          (row) => html`
            <span class="log-row">${row.map((piece) => html`<${Piece} piece=${piece} needle=${needle} />`)}</span>
          `,
        )}
      </span>
    </div>
  `;
}

/** Split pieces into rows of a number of characters. */
function cut(drawn, columns) {
  const rows = [[]];
  let room = columns;
  for (const piece of drawn) {
    for (let rest = piece.text; rest;) {
      if (!room) {
        rows.push([]);
        room = columns;
      }
      rows.at(-1).push({ text: rest.slice(0, room), class: piece.class });
      const taken = Math.min(room, rest.length);
      rest = rest.slice(taken);
      room -= taken;
    }
  }
  return rows;
}

function Piece({ piece, needle }) {
  const inner = needle ? marked(piece.text, needle) : piece.text;
  return piece.class ? html`<span class=${piece.class}>${inner}</span>` : inner;
}

/** A text with highlighted matches. */
function marked(text, needle) {
  const parts = [];
  const low = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(needle.toLowerCase()); at >= 0; at = low.indexOf(needle.toLowerCase(), from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + needle.length)}</mark>`);
    from = at + needle.length;
  }
  return [...parts, text.slice(from)];
}
