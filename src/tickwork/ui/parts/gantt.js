// A Gantt chart of the steps of a run. Only visible rows are drawn.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/core.js";
import { duration } from "../lib/time.js";
import { Icon } from "./icon.js";
import { quietToneOf, Sign, wordOf } from "./state-badge.js";

/**
 * @typedef {{name: string, state: string, ready: number | null, start: number | null, end: number | null, attempts:
 *   number, isCritical: boolean, total: number, isFaded: boolean}} Bar Instants are milliseconds; `ready` is when all
 *   that it waits for had ended; an `end` of null: it still runs.
 */

const ROW = 26;
const INSET = 6; // margin in pixels at both ends
const LABEL = 60;
const LONG_LABEL = 110;
const MOST_ZOOM = 20_000;
const STEPS_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14400, 43200, 86400,
];

/**
 * @param {{bars: Bar[], from: number, to: number, isLive: boolean, chosen?: string | null, onChoose: (name: string) =>
 *   void}} props
 */
export function Gantt({ bars, from, to, isLive, chosen, onChoose }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0, top: 0 });
  const [zoom, setZoom] = useState({ k: 1, at: 0 }); // zoom factor, and the left edge as a share
  useLayoutEffect(() => {
    const measure = () =>
      setSize({
        width: box.current.querySelector(".gantt-axis").clientWidth,
        height: box.current.clientHeight,
        top: box.current.scrollTop,
      });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const span = Math.max(1, to - from);
  const change = (by, share = 0.5) => setZoom((now) => zoomedAt(now, by, share));
  const shift = (by) => setZoom((now) => ({ ...now, at: bounded(now.at + by / now.k, now.k) }));
  useEffect(() => wheels(box.current, setZoom), []);
  const scale = { left: from + span * zoom.at, perPixel: span / zoom.k / Math.max(1, size.width - INSET * 2) };
  const x = (instant) => INSET + (instant - scale.left) / scale.perPixel;
  const first = Math.max(0, Math.floor(size.top / ROW) - 6);
  const last = Math.min(bars.length, Math.ceil((size.top + size.height) / ROW) + 6);
  const press = (event) => {
    const does = {
      "+": () => change(1.4),
      "=": () => change(1.4),
      "-": () => change(1 / 1.4),
      0: () => setZoom({ k: 1, at: 0 }),
      ArrowLeft: () => shift(-0.15),
      ArrowRight: () => shift(0.15),
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  };
  const tool = (label, icon, run) => html`
    <button class="bare" aria-label=${label} title=${label} onClick=${run}><${Icon} name=${icon} /></button>
  `;
  return html`
    <div
      class="gantt"
      ref=${box}
      tabindex="0"
      role="group"
      aria-label="Timeline of the steps"
      onKeyDown=${press}
      onScroll=${() => setSize((now) => ({ ...now, top: box.current.scrollTop }))}
    >
      <div class="gantt-head">
        <span class="gantt-name">
          Step${tool("Zoom out (-)", "zoom-out", () => change(1 / 1.4))}
          ${tool("Zoom in (+)", "zoom-in", () => change(1.4))}
          ${tool("Fit (0)", "maximize", () => setZoom({ k: 1, at: 0 }))}
        </span>
        <div class="gantt-axis">
          ${ticks(scale, from, size.width).map(
            (tick) => html`<span key=${tick.label} style=${{ left: `${tick.x}px` }}>${tick.label}</span>`,
          )}
        </div>
      </div>
      <div class="gantt-rows" style=${{ height: `${bars.length * ROW}px` }}>
        ${bars
          .slice(first, last)
          .map(
            (bar, at) => html`
              <${Row}
                key=${bar.name}
                bar=${bar}
                y=${(first + at) * ROW}
                x=${x}
                to=${to}
                width=${size.width}
                isChosen=${bar.name === chosen}
                onChoose=${onChoose}
              />
            `,
          )}
        ${isLive && x(to) <= size.width && html`<i class="gantt-now" style=${{ "--x": `${x(to)}px` }}></i>`}
      </div>
    </div>
  `;
}

const bounded = (at, k) => Math.max(0, Math.min(1 - 1 / k, at));

function zoomedAt(now, by, share) {
  const k = Math.max(1, Math.min(MOST_ZOOM, now.k * by));
  return { k, at: bounded(now.at + share / now.k - share / k, k) };
}

/** Ctrl + wheel or a pinch zooms; a sideways wheel moves in time; otherwise the rows scroll. */
function wheels(element, setZoom) {
  const wheel = (event) => {
    const axis = element.querySelector(".gantt-axis").getBoundingClientRect();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      setZoom((now) => zoomedAt(now, Math.exp(-event.deltaY * 0.004), (event.clientX - axis.left) / axis.width));
    } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      setZoom((now) => ({ ...now, at: bounded(now.at + sideways / axis.width / now.k, now.k) }));
    } else return;
    event.preventDefault();
  };
  element.addEventListener("wheel", wheel, { passive: false });
  return () => element.removeEventListener("wheel", wheel);
}

function ticks(scale, from, width) {
  if (!width) return [];
  const least = (90 * scale.perPixel) / 1000;
  const step = (STEPS_S.find((one) => one >= least) || STEPS_S.at(-1) * Math.ceil(least / STEPS_S.at(-1))) * 1000;
  const found = [];
  for (let at = Math.ceil((scale.left - from) / step) * step; ; at += step) {
    const x = INSET + (at + from - scale.left) / scale.perPixel;
    if (x > width - 30) return found;
    found.push({ x, label: at ? duration(at / 1000) : "0" });
  }
}

function Row({ bar, y, x, to, width, isChosen, onChoose }) {
  const end = bar.end ?? to;
  const from = bar.start ?? end;
  const waits = bar.ready !== null && from > bar.ready ? part(x(bar.ready), x(from), width) : null;
  const runs = bar.start !== null ? part(x(bar.start), x(end), width) : null;
  const took = bar.start === null ? "" : duration((end - bar.start) / 1000);
  const waited = bar.ready !== null ? (from - bar.ready) / 1000 : 0;
  const tries = bar.attempts > 1 ? `, ${bar.attempts} attempts` : "";
  const said = [
    `${bar.name}: ${wordOf(bar.state)}`,
    took && `, ran ${took}`,
    waited > 0.001 && `, waited ${duration(waited)}`,
    tries,
    bar.isCritical && ", on the critical path",
  ]
    .filter(Boolean)
    .join("");
  const labelAt = runs ? runs.left + runs.width + 6 : waits ? waits.left + waits.width + 6 : 0;
  return html`
    <button
      class="gantt-row"
      style=${{ "--y": `${y}px` }}
      data-tone=${quietToneOf(bar.state)}
      data-state=${bar.state}
      aria-pressed=${isChosen}
      data-faded=${bar.isFaded}
      title=${said}
      onClick=${() => onChoose(bar.name)}
    >
      <span class="gantt-name">
        <${Sign} state=${bar.state} />
        <span class="clip">${bar.name}</span>
        ${bar.total > 0 && html`<small class="dim num">×${bar.total}</small>`}
      </span>
      <span class="gantt-lane">
        ${waits && html`
          <i
            class="waits"
            data-retried=${bar.attempts > 1}
            style=${{ left: `${waits.left}px`, width: `${waits.width}px` }}
          ></i>
        `}
        ${runs && html`
          <i
            class="runs"
            data-critical=${bar.isCritical}
            style=${{ left: `${runs.left}px`, width: `${Math.max(2, runs.width)}px` }}
          ></i>
        `}
        <span class="hidden-label">${said}</span>
        ${took && labelAt > 0 && labelAt < width - (bar.attempts > 1 ? LONG_LABEL : LABEL) && html`
          <small class="took num" style=${{ left: `${labelAt}px` }}>
            ${took}
            ${bar.attempts > 1 ? ` · ${bar.attempts} attempts` : ""}
          </small>
        `}
      </span>
    </button>
  `;
}

/** The visible part of a bar, with a margin. */
function part(left, right, width) {
  const [from, to] = [Math.max(-10, left), Math.min(width + 10, right)];
  return to < from ? null : { left: from, width: to - from };
}
