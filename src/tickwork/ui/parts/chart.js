// Time series charts as SVG: stacked bars and lines, with keyboard access and a table for screen readers.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { durations, durationTick, instants, linear } from "../lib/chart-scale.js";
import { dateOf, dayOf, minuteOf } from "../lib/time.js";
import { zone } from "../lib/browser-prefs.js";

/**
 * @typedef {{id: string, label: string, tone: string, values: (number | null)[], look?: "thin"|"dotted"|"plain",
 *   summary?: any}} Series
 */
/** @typedef {{value: number | null}} Pointer */

const HEIGHT = 190;
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 6, 8, 22];
const DAY_MS = 86_400_000;
const TICK_PX = 84;

/**
 * `times` are the starts of spans of `spanS` seconds, in milliseconds. `bars` are stacked from the bottom; `lines`
 * are not. `partial` marks spans with incomplete data. `format` formats a value; `none` is shown without data.
 * @param {{label: string, times: number[], spanS: number, bars?: Series[], lines?: Series[], isLog?: boolean,
 *   format:   (value: number) => string, none: string, partial?: boolean[], pointer: Pointer, isStale?: boolean}}
 *   props
 */
export function Chart({
  label,
  times,
  spanS,
  bars = [],
  lines = [],
  isLog = false,
  format,
  none,
  partial = [],
  pointer,
  isStale = false,
}) {
  const [hidden, setHidden] = useState(/** @type {string[]} */ ([]));
  const [box, width] = useWidth();
  const isShown = (one) => !hidden.includes(one.id);
  const stacked = bars.filter(isShown);
  const drawn = lines.filter(isShown);
  const scale = isLog ? logOf(drawn) : linear(highest(stacked, drawn, times.length));
  const plot = { width: Math.max(0, width - LEFT - RIGHT), height: HEIGHT - TOP - BOTTOM };
  const x = (at) => LEFT + ((at - times[0]) / (times.length * spanS * 1000)) * plot.width;
  const y = (value) => TOP + plot.height * (1 - scale.of(value));
  const drawing = useMemo(
    () =>
      width > 0 && html`
        <${Axes} ...${{ scale, plot, x, y, times, spanS, isLog, format }} />
        <${Bars} ...${{ series: stacked, times, plot, x, y, partial }} />
        <${Lines} ...${{ series: drawn, times, spanS, x, y }} />
      `,
    [bars, lines, hidden, width, times, zone.value],
  );
  const at = pointer.value === null ? null : Math.min(pointer.value, times.length - 1);
  const toggle = (id) => setHidden((now) => (now.includes(id) ? now.filter((one) => one !== id) : [...now, id]));
  const shown = [...stacked, ...drawn];
  const walk = walker(times.length, at, pointer);
  const find = (event) => {
    const place = (event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / plot.width;
    pointer.value =
      place < -0.02 || place > 1.02 ? null : Math.max(0, Math.min(times.length - 1, Math.floor(place * times.length)));
  };
  return html`
    <figure class="chart" data-stale=${isStale} ref=${box}>
      <div
        class="plot"
        role="slider"
        tabindex="0"
        aria-label="${label}. Use the arrow keys to move."
        aria-valuemin="0"
        aria-valuemax=${times.length - 1}
        aria-valuenow=${at ?? times.length - 1}
        aria-valuetext=${told(at ?? times.length - 1, times, spanS, shown, format)}
        onKeyDown=${walk}
        onPointerMove=${find}
        onPointerDown=${find}
        onPointerLeave=${() => (pointer.value = null)}
        onBlur=${() => (pointer.value = null)}
      >
        <svg width=${width} height=${HEIGHT} aria-hidden="true">
          ${at !== null && html`
            <rect class="under" x=${x(times[at])} y=${TOP} width=${plot.width / times.length} height=${plot.height} />
          `}
          ${drawing}
          ${at !== null &&
          drawn.map(
            (one) =>
              one.values[at] !== null && html`
                <circle
                  class="spot"
                  data-tone=${one.tone}
                  cx=${x(times[at] + spanS * 500)}
                  cy=${y(one.values[at])}
                  r="3"
                />
              `,
          )}
        </svg>
        ${!shown.some((one) => one.values.some(Boolean)) && html`<p class="none dim">${none}</p>`}
        ${at !== null && html`
          <${Tip}
            ...${{
              at,
              times,
              spanS,
              series: shown,
              format,
              isPartial: partial[at],
              x: x(times[at] + spanS * 500),
              width,
            }}
          />
        `}
      </div>
      <ul class="chart-legend" aria-label="Series">
        ${[...bars, ...lines].map(
          (one) => html`
            <li key=${one.id}>
              <button
                class="bare"
                aria-pressed=${isShown(one)}
                title=${isShown(one) ? "Click to hide" : "Click to show"}
                onClick=${() => toggle(one.id)}
              >
                <${Swatch} series=${one} isBar=${bars.includes(one)} />
                ${one.label}
                ${one.summary !== undefined && html`<b class="num">${one.summary}</b>`}
              </button>
            </li>
          `,
        )}
      </ul>
      <${AsTable} ...${{ label, times, spanS, series: [...bars, ...lines], format }} />
    </figure>
  `;
}

function useWidth() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  return /** @type {const} */ ([box, width]);
}

/** Move the crosshair with arrow keys. */
function walker(length, at, pointer) {
  return (event) => {
    const last = length - 1;
    const next = {
      ArrowLeft: Math.max(0, (at ?? length) - 1),
      ArrowRight: Math.min(last, (at ?? last) + 1),
      Home: 0,
      End: last,
      Escape: null,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    pointer.value = next;
  };
}

function highest(bars, lines, length) {
  const sums = Array.from({ length }, (_, at) => bars.reduce((sum, one) => sum + (one.values[at] || 0), 0));
  return Math.max(0, ...sums, ...lines.flatMap((one) => one.values.map((value) => value || 0)));
}

function logOf(lines) {
  const all = lines.flatMap((one) => one.values.filter((value) => value !== null));
  return all.length ? durations(Math.min(...all), Math.max(...all)) : durations(0.01, 1);
}

function Axes({ scale, plot, x, y, times, spanS, isLog, format }) {
  const end = times[0] + times.length * spanS * 1000;
  const { ticks, step } = instants(times[0], end, Math.max(2, Math.floor(plot.width / TICK_PX)));
  const right = LEFT + plot.width;
  const inside = ticks.filter((at) => x(at) > LEFT + 14 && x(at) < right - 16);
  return html`
    <g class="axes">
      ${scale.ticks.map(
        (value, at) => html`
          <line
            class=${at ? "" : "ground"}
            x1=${LEFT}
            x2=${right}
            y1=${Math.round(y(value)) + 0.5}
            y2=${Math.round(y(value)) + 0.5}
          />
          <text x=${LEFT - 8} y=${y(value) + 3.5} text-anchor="end">
            ${isLog ? durationTick(value) : format(value)}
          </text>
        `,
      )}
      ${inside.map(
        (at) => html`
          <text x=${x(at)} y=${HEIGHT - 6} text-anchor="middle">${step >= DAY_MS ? dateOf(at) : minuteOf(at)}</text>
        `,
      )}
    </g>
  `;
}

function Bars({ series, times, plot, x, y, partial }) {
  const whole = plot.width / times.length;
  const thick = whole > 5 ? whole - 1.5 : whole; // no gaps between thin bars
  const base = times.map(() => 0);
  const paths = series.map((one) => {
    const found = { known: "", partial: "" };
    for (const [at, value] of one.values.entries()) {
      if (!value) continue;
      const [from, to] = [y(base[at]), y(base[at] + value)];
      base[at] += value;
      const left = x(times[at]) + (whole - thick) / 2;
      const [M, below, wide, V] = [left, from, thick, Math.min(to, from - 0.6)].map((one) => one.toFixed(1));
      found[partial[at] ? "partial" : "known"] += `M${M},${below}h${wide}V${V}h-${wide}Z`;
    }
    return { one, found };
  });
  return paths.map(
    ({ one, found }) => html`
      <path class="bar" data-tone=${one.tone} d=${found.known} />
      <path class="bar partial" data-tone=${one.tone} d=${found.partial} />
    `,
  );
}

function Lines({ series, times, spanS, x, y }) {
  return series.map((one) => {
    let path = "";
    let isOn = false;
    for (const [at, value] of one.values.entries()) {
      if (value !== null) {
        const point = `${x(times[at] + spanS * 500).toFixed(1)},${y(value).toFixed(1)}`;
        path += isOn ? `L${point}` : `M${point}h0.01`;
      }
      isOn = value !== null;
    }
    return html`<path class="line" data-tone=${one.tone} data-look=${one.look || "plain"} d=${path} />`;
  });
}

function Swatch({ series, isBar }) {
  return html`
    <svg class="swatch" width="14" height="10" aria-hidden="true">
      ${isBar
        ? html`<rect class="bar" data-tone=${series.tone} x="2" width="10" height="10" rx="2" />`
        : html`<path class="line" data-tone=${series.tone} data-look=${series.look || "plain"} d="M0,5H14" />`}
    </svg>
  `;
}

function Tip({ at, times, spanS, series, format, isPartial, x, width }) {
  const place = x < width / 2 ? { left: `${x + 12}px` } : { right: `${width - x + 12}px` };
  return html`
    <div class="tip" style=${place} aria-hidden="true">
      <b>${spanOf(times[at], spanS)}</b>
      ${isPartial && html`<span class="dim"> so far</span>`}
      <dl>
        ${series.map(
          (one) => html`
            <dt data-tone=${one.tone}><i></i>${one.label}</dt>
            <dd class="num">${one.values[at] === null ? "–" : format(one.values[at])}</dd>
          `,
        )}
      </dl>
    </div>
  `;
}

/** A span of time: "18:40 – 18:45", with its date if it is not today. */
function spanOf(at, spanS) {
  const clock = spanS <= 60 ? minuteOf(at) : `${minuteOf(at)} – ${minuteOf(at + spanS * 1000)}`;
  return dayOf(at) === dayOf(Date.now()) ? clock : `${dateOf(at)}, ${clock}`;
}

function told(at, times, spanS, series, format) {
  const values = series.map(({ label, values }) => `${label} ${values[at] === null ? "none" : format(values[at])}`);
  return `${spanOf(times[at], spanS)}: ${values.join(", ")}`;
}

function AsTable({ label, times, spanS, series, format }) {
  return html`
    <div class="hidden-label">
      <table>
        <caption>${label}</caption>
        <thead><tr><th scope="col">When</th>${series.map((one) => html`<th scope="col">${one.label}</th>`)}</tr></thead>
        <tbody>
          ${times.map(
            (time, at) => html`
              <tr>
                <th scope="row">${spanOf(time, spanS)}</th>
                ${series.map((one) => html`<td>${one.values[at] === null ? "none" : format(one.values[at])}</td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
