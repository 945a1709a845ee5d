// Draw the nodes and groups of a graph, as plain blocks if they are too small for text.

import { html, useMemo } from "../vendor/core.js";
import { count } from "../lib/format.js";
import { quietToneOf, signOf, wordOf } from "./state-badge.js";

const SPRITE = new URL("../vendor/icons.svg", import.meta.url).pathname;
const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
const family = getComputedStyle(document.documentElement).getPropertyValue("--font") || "sans-serif";
const cut = new Map();

/** A text, cut with an ellipsis to fit. @param {string} text @param {number} width @param {string} font */
function clipped(text, width, font) {
  const key = `${font} ${width} ${text}`;
  if (!cut.has(key)) {
    if (cut.size > 20_000) cut.clear();
    pen.font = `${font} ${family}`;
    let end = text.length;
    if (pen.measureText(text).width > width) {
      end = Math.min(end, 200);
      while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
    }
    cut.set(key, end < text.length ? `${text.slice(0, end)}…` : text);
  }
  return cut.get(key);
}

/** An icon of the sprite inside the graph. */
function Mark({ name, x, y, size = 15, turns = false }) {
  return html`
    <svg
      class="icon ${turns ? "turns" : ""}"
      x=${x}
      y=${y}
      width=${size}
      height=${size}
      viewBox="0 0 24 24"
      aria-hidden="true"
    >
      <use href="${SPRITE}#${name}" />
    </svg>
  `;
}

/**
 * @param {{box: import("../lib/graph.js").Box, place: import("../lib/graph-layout.js").Place, look:
 *   import("./graph-view.js").Look | null, isChosen: boolean, isActive: boolean, isFaded: boolean, onOpen: (id: string)
 *   => void}} props
 */
export function BoxMark({ box, place, look, isChosen, isActive, isFaded, onOpen }) {
  const counts = look?.counts;
  const said = counts?.map(([state, number]) => `${number} ${state}`).join(" ");
  return useMemo(() => {
    const { x, y, width, height } = place;
    const isMany = Boolean(box.node?.mapped || !box.node);
    const state = look?.state;
    const sign = state
      ? signOf(state)
      : !box.node
        ? "layers-2"
        : box.node.kind === "approval"
          ? "hand"
          : box.node.mapped
            ? "layers-2"
            : "square";
    const line =
      look?.line ??
      (box.node?.task && box.node.task !== box.node.name && box.node.task !== box.label
        ? box.node.task
        : ruleOf(box.node));
    const what = box.node
      ? box.node.mapped
        ? "mapped step"
        : box.node.kind === "approval"
          ? "approval"
          : "step"
      : `collapsed group of ${box.steps.length} steps`;
    return html`
      <g
        class="box"
        data-box=${box.node ? box.id : `group ${box.label}`}
        data-tone=${state ? quietToneOf(state) : "queue"}
        data-state=${state}
        data-chosen=${isChosen}
        data-active=${isActive}
        data-faded=${isFaded}
        transform="translate(${x} ${y})"
        role="button"
        tabindex=${isActive ? 0 : -1}
        onClick=${(event) => {
          event.stopPropagation();
          onOpen(box.id);
        }}
      >
        <title>
          ${box.node?.name || box.label}, ${what}${state ? `, ${wordOf(state)}` : ""}${said ? `, ${said}` : ""}
          ${line ? `, ${line}` : ""}
        </title>
        <g aria-hidden="true">
          ${isMany && html`<rect class="behind" x="4" y="-4" width=${width - 4} height=${height} rx="7" />`}
          <rect class="body" width=${width} height=${height} rx="7" />
          <${Mark} name=${sign} x=${11} y=${counts ? 8 : height / 2 - 8} size=${16} turns=${state === "running"} />
          <text class="name" x="35" y=${line || counts ? 19 : height / 2 + 4.5}>
            ${clipped(box.label, width - 44 - (look?.total ? 36 : 0), "600 12.5px")}
          </text>
          ${look?.total ? html`<text class="times" x=${width - 10} y="19">×${count(look.total)}</text>` : null}
          ${counts
            ? html`<${Counts} counts=${counts} x=${12} y=${height - 24} width=${width - 24} />`
            : line && html`<text class="line" x="35" y="35">${clipped(line, width - 44, "400 11.5px")}</text>`}
        </g>
      </g>
    `;
  }, [box, place, look?.state, look?.line, said, isChosen, isActive, isFaded]);
}

const ruleOf = (node) =>
  !node
    ? ""
    : node.when?.length
      ? `when ${node.when[0]}`
      : node.run_if && node.run_if !== "all_succeeded"
        ? `if ${node.run_if.replaceAll("_", " ")}`
        : "";

/** A bar with a segment for each state of the instances, and the relevant numbers. */
function Counts({ counts, x, y, width }) {
  const all = counts.reduce((sum, [, number]) => sum + number, 0);
  let from = x;
  const parts = counts.map(([state, number]) => {
    const part = { state, number, x: from, width: Math.max(2, (number / all) * width) };
    from += part.width;
    return part;
  });
  const shrink = width / (from - x);
  const words = counts.map(([state, number]) => `${count(number)} ${wordOf(state)}`).join("  ");
  return html`
    <g class="numbers">
      <title>${words}</title>
      ${parts.map(
        (part) => html`
          <rect
            key=${part.state}
            class="part"
            data-tone=${quietToneOf(part.state)}
            x=${x + (part.x - x) * shrink}
            y=${y}
            width=${Math.max(1, part.width * shrink - 1)}
            height="4"
            rx="1"
          />
        `,
      )}
      <text class="line" x=${x} y=${y + 15.5}>${clipped(words, width, "400 10.5px")}</text>
    </g>
  `;
}

/**
 * @param {{group: import("../lib/graph-layout.js").GroupPlace, onClose: (id: string) => void, isSimple: boolean}}
 *   props
 */
export function GroupMark({ group, onClose, isSimple }) {
  const name = group.id.split(".").at(-1);
  const close = (event) => {
    event.stopPropagation();
    onClose(group.id);
  };
  const press = (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), close(event));
  return html`
    <g class="group" transform="translate(${group.x} ${group.y})">
      <rect width=${group.width} height=${group.height} rx="10" />
      ${!isSimple && html`
        <g
          class="group-name"
          role="button"
          tabindex="-1"
          aria-label="Collapse group ${group.id}"
          onClick=${close}
          onKeyDown=${press}
        >
          <rect x="6" y="5" width=${Math.min(group.width - 12, 30 + name.length * 7)} height="20" rx="5" />
          <${Mark} name="minus" x=${10} y=${9} size=${12} />
          <text x="27" y="19">${clipped(name, group.width - 40, "600 11px")}</text>
        </g>
      `}
    </g>
  `;
}

/** All steps as coloured blocks, one path per tone. */
export function Plain({ drawing, looks, shining }) {
  const paths = useMemo(() => blocks(drawing, looks, shining), [drawing, looks, shining]);
  return paths.map(
    (one) => html`<path key=${one.key} class="block" data-tone=${one.tone} data-faded=${one.isFaded} d=${one.path} />`,
  );
}

/**
 * @param {import("../lib/graph.js").Drawing} drawing
 * @param {Map<string, any>} looks
 * @param {Set<string> | null} shining
 */
export function blocks(drawing, looks, shining = null) {
  const found = new Map();
  for (const [id, { x, y, width, height }] of drawing.places) {
    const state = looks.get(id)?.state;
    const tone = state ? quietToneOf(state) : "queue";
    const isFaded = Boolean(shining && !shining.has(id));
    const key = `${tone} ${isFaded}`;
    if (!found.has(key)) found.set(key, { key, tone, isFaded, path: "" });
    found.get(key).path += `M${Math.round(x)} ${Math.round(y)}h${width}v${height}h${-width}z`;
  }
  return [...found.values()];
}
