// The interactive graph of a dag or run: pan, zoom, search, collapse groups. Each step is a button.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { fitted, MARGIN, useCamera } from "../lib/pan-zoom.js";
import { closedId, drawn, groupsOf, MANY } from "../lib/graph.js";
import { Icon } from "./icon.js";
import { BoxMark, GroupMark, Plain } from "./graph-nodes.js";
import { Minimap } from "./graph-minimap.js";

const SIMPLE_BELOW = 0.36;
const SIMPLE_OVER = 450;
const READABLE = 0.7;
const FITS = 0.55;
const ROOM = 150;
const MAPPED = 30; // the minimap is hidden for fewer steps
const PAN = 90;

/** @typedef {{state: string, line?: string, counts?: [string, number][], total?: number}} Look */

/**
 * @param {{data: import("../lib/graph.js").GraphData, look: (box: import("../lib/graph.js").Box) => Look | null,
 *   chosen?: string | null, onChoose: (name: string) => void, isMatch?: ((name: string, state: string | undefined) =>
 *   boolean) | null, label: string, seek?: number}} props `look` says how a box stands (null: a dag without a run).
 *   `isMatch`: others fade. `seek` counts how often the next match was asked for.
 */
export function Graph({ data, look, chosen, onChoose, isMatch, label, seek = 0 }) {
  const [closed, setClosed] = useState(
    () => new Set(data.nodes.length > MANY ? groupsOf(data).filter((one) => !one.includes(".")) : []),
  );
  const drawing = useMemo(() => drawn(data, closed), [data.structure || data, closed]);
  const looks = useMemo(() => new Map([...drawing.boxes.values()].map((box) => [box.id, look(box)])), [drawing, look]);
  const camera = useCamera(drawing, (width, height) => begin(drawing, looks, chosen, width, height));
  const [active, setActive] = useState(/** @type {string | null} */ (null));
  const focused = useRef(false);
  const at = drawing.boxes.has(active) ? active : boxOf(drawing, chosen) || drawing.order[0];
  const matches = useMemo(
    () =>
      isMatch
        ? drawing.order.filter((id) => drawing.boxes.get(id).steps.some((name) => isMatch(name, looks.get(id)?.state)))
        : null,
    [drawing, looks, isMatch],
  );

  const held = useRef(/** @type {{group: string, place: any} | null} */ (null));
  const toggle = (group) => {
    held.current = { group, place: placeOf(drawing, group) };
    setClosed((now) => new Set(now.has(group) ? [...now].filter((one) => one !== group) : [...now, group]));
  };
  const open = (id) => {
    const box = drawing.boxes.get(id);
    if (box.node) onChoose(box.node.name);
    else toggle(box.label);
  };
  const focus = (id) => {
    setActive(id);
    camera.show(drawing.places.get(id));
    focused.current = true;
  };
  useEffect(() => {
    if (focused.current) {
      /** @type {HTMLElement | null} */
      const active = camera.box.current.querySelector('[data-active="true"]');
      active?.focus({ preventScroll: true });
    }
    focused.current = false;
  });
  useEffect(() => {
    if (!seek || !matches?.length) return;
    const next = matches[(matches.indexOf(at) + 1) % matches.length];
    setActive(next);
    camera.show(drawing.places.get(next), true);
  }, [seek]);
  const isLaid = useRef(drawing);
  useEffect(() => {
    if (isLaid.current === drawing) return;
    isLaid.current = drawing;
    const [then, now] = [held.current?.place, held.current && placeOf(drawing, held.current.group)];
    const view = camera.now();
    if (then && now) camera.to({ ...view, x: view.x + now.x - then.x, y: view.y + now.y - then.y });
    else camera.fit();
    held.current = null;
  }, [drawing]);

  const press = (event) => {
    const done = keyed(event, { camera, drawing, at, focus, open, isOnBox: event.target.hasAttribute("data-box") });
    if (done) (event.preventDefault(), event.stopPropagation());
  };
  const groups = useMemo(() => groupsOf(data), [data.structure || data]);
  return html`
    <div
      class="graph"
      role="group"
      aria-label=${label}
      tabindex="0"
      ref=${camera.box}
      onKeyDown=${press}
      style=${{ "--wanted": `${Math.round(drawing.height) + ROOM}px` }}
    >
      <${Paper}
        camera=${camera}
        drawing=${drawing}
        looks=${looks}
        matches=${matches}
        chosen=${boxOf(drawing, chosen)}
        active=${at}
        onOpen=${(id) => {
          setActive(id);
          open(id);
        }}
        onClose=${toggle}
      />
      <div class="graph-tools">
        ${groups.length > 0 && html`
          <button onClick=${() => setClosed(new Set(closed.size ? [] : groups))}>
            ${closed.size ? "Expand groups" : "Collapse groups"}
          </button>
        `}
        <button aria-label="Zoom out" title="Zoom out (-)" onClick=${() => camera.zoom(1 / 1.3)}>
          <${Icon} name="zoom-out" />
        </button>
        <button aria-label="Zoom in" title="Zoom in (+)" onClick=${() => camera.zoom(1.3)}>
          <${Icon} name="zoom-in" />
        </button>
        <button aria-label="Fit" title="Fit (0)" onClick=${camera.fit}><${Icon} name="maximize" /></button>
      </div>
      ${drawing.boxes.size > MAPPED && html`<${Minimap} drawing=${drawing} looks=${looks} camera=${camera} />`}
    </div>
  `;
}

/** The box of a step: its own, or the box of a collapsed group around it. */
function boxOf(drawing, name) {
  if (!name || drawing.boxes.has(name)) return name || null;
  for (const box of drawing.boxes.values()) if (!box.node && box.steps.includes(name)) return box.id;
  return null;
}

/** The position of a group, expanded or collapsed. */
const placeOf = (drawing, group) =>
  drawing.places.get(closedId(group)) || drawing.groups.find((one) => one.id === group);

/** The first view: the whole graph if it is readable; otherwise the selected, failed, running or first step. */
function begin(drawing, looks, chosen, width, height) {
  const whole = fitted(drawing, width, height);
  if (whole.k >= FITS) return { view: whole, isWhole: true };
  const inState = (state) => drawing.order.find((id) => looks.get(id)?.state === state);
  const id = boxOf(drawing, chosen) || inState("failed") || inState("awaiting") || inState("running");
  const k = Math.max(READABLE, Math.min(0.85, (height - 72) / drawing.height));
  if (!id) return { view: { ...fitted(drawing, width, height, k), k }, isWhole: false };
  const place = drawing.places.get(id);
  const view = {
    k,
    x: place.x + place.width / 2 - width / k / 2,
    y: drawing.height * k < height ? drawing.height / 2 - height / k / 2 : place.y + place.height / 2 - height / k / 2,
  };
  return { view, isWhole: false };
}

function Paper({ camera, drawing, looks, matches, chosen, active, onOpen, onClose }) {
  const seen = camera.seen;
  const window = seen ? windowOf(seen) : { x: 0, y: 0, width: 1, height: 1 };
  const inView = seen ? drawing.order.filter((id) => touches(drawing.places.get(id), window)) : [];
  const isSimple = Boolean(seen) && (seen.view.k < SIMPLE_BELOW || inView.length > SIMPLE_OVER);
  const shining = useMemo(() => (matches ? new Set(matches) : null), [matches]);
  const full = isSimple
    ? [active, chosen].filter((id, at, all) => id && all.indexOf(id) === at)
    : [...new Set([...inView, active].filter(Boolean))];
  const wires = useMemo(
    () => strands(drawing, isSimple ? null : window, chosen),
    [drawing, isSimple, isSimple || JSON.stringify(window), chosen],
  );
  const find = (event) => {
    if (!isSimple) return;
    const box = camera.box.current.getBoundingClientRect();
    const { x, y, k } = camera.now();
    const [px, py] = [x + (event.clientX - box.left) / k, y + (event.clientY - box.top) / k];
    const id = drawing.order.find((one) => touches(drawing.places.get(one), { x: px, y: py, width: 0, height: 0 }));
    if (id) onOpen(id);
  };
  const style = seen
    ? {
        left: `${-MARGIN * 100}%`,
        top: `${-MARGIN * 100}%`,
        width: `${(1 + MARGIN * 2) * 100}%`,
        height: `${(1 + MARGIN * 2) * 100}%`,
      }
    : undefined;
  // The element around the drawing is shifted: browsers would repaint a shifted drawing in every frame.
  return html`
    <div class="paper" ref=${camera.paper} style=${style} data-simple=${isSimple}>
      <svg viewBox="${window.x} ${window.y} ${window.width} ${window.height}" onClick=${find}>
        ${drawing.groups
          .filter((group) => touches(group, window))
          .map(
            (group) => html`<${GroupMark} key=${group.id} group=${group} onClose=${onClose} isSimple=${isSimple} />`,
          )}
        ${wires.map((one) => html`<path key=${one.kind} class="wire ${one.kind}" d=${one.path} />`)}
        ${isSimple && html`<${Plain} drawing=${drawing} looks=${looks} shining=${shining} />`}
        ${full.map(
          (id) => html`
            <${BoxMark}
              key=${id}
              box=${drawing.boxes.get(id)}
              place=${drawing.places.get(id)}
              look=${looks.get(id)}
              isChosen=${id === chosen}
              isActive=${id === active}
              isFaded=${Boolean(shining && !shining.has(id))}
              onOpen=${onOpen}
            />
          `,
        )}
      </svg>
    </div>
  `;
}

function windowOf({ view, width, height }) {
  const [w, h] = [width / view.k, height / view.k];
  return { x: view.x - w * MARGIN, y: view.y - h * MARGIN, width: w * (1 + MARGIN * 2), height: h * (1 + MARGIN * 2) };
}

const touches = (one, other) =>
  one.x <= other.x + other.width &&
  one.x + one.width >= other.x &&
  one.y <= other.y + other.height &&
  one.y + one.height >= other.y;

/** Edges merged into few paths: plain ones, those that only order, those of the selected step. */
function strands(drawing, window, chosen) {
  const found = { data: "", order: "", near: "" };
  for (const wire of drawing.wires) {
    if (
      window &&
      (wire.left > window.x + window.width ||
        wire.right < window.x ||
        wire.top > window.y + window.height ||
        wire.bottom < window.y)
    ) {
      continue;
    }
    const kind = wire.from === chosen || wire.to === chosen ? "near" : wire.kind;
    found[kind] += wire.path;
  }
  return Object.entries(found)
    .filter(([, one]) => one)
    .map(([kind, one]) => ({ kind, path: one }));
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Keyboard: on a step, arrows follow edges or move up and down; elsewhere, or with Shift, they move the view. */
function keyed(event, { camera, drawing, at, focus, open, isOnBox }) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, input")) return false;
  const arrow = ARROWS[event.key];
  if (arrow && isOnBox && !event.shiftKey) {
    const next = neighbour(drawing, at, arrow);
    if (next) focus(next);
  } else if (arrow) camera.pan(arrow[0] * PAN, arrow[1] * PAN);
  else if (event.key === "+" || event.key === "=") camera.zoom(1.3);
  else if (event.key === "-") camera.zoom(1 / 1.3);
  else if (event.key === "0") camera.fit();
  else if (event.key === "Home") focus(drawing.order[0]);
  else if ((event.key === "Enter" || event.key === " ") && isOnBox) open(at);
  else return false;
  return true;
}

function neighbour(drawing, at, [dx, dy]) {
  const here = drawing.places.get(at);
  if (dx) {
    const near = (dx > 0 ? drawing.next : drawing.before).get(at) || [];
    const far = (id) => Math.abs(drawing.places.get(id).y - here.y) + Math.abs(drawing.places.get(id).x - here.x);
    return near.reduce((best, id) => (best === null || far(id) < far(best) ? id : best), null);
  }
  const column = drawing.order.filter((id) => drawing.places.get(id).x === here.x);
  return column[column.indexOf(at) + dy] || null;
}
