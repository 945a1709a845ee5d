// The minimap of a graph with a frame around the visible part, shown if the graph does not fit.

import { html, useEffect, useMemo, useRef } from "../vendor/core.js";
import { blocks } from "./graph-nodes.js";

const WIDTH = 190;
const HEIGHT = 116;

/** @param {{drawing: import("../lib/graph.js").Drawing, looks: Map<string, any>, camera: any}} props */
export function Minimap({ drawing, looks, camera }) {
  const frame = useRef(/** @type {SVGRectElement | null} */ (null));
  const paths = useMemo(() => blocks(drawing, looks), [drawing, looks]);
  const seen = camera.seen;
  const isLarger = seen && (drawing.width * seen.view.k > seen.width || drawing.height * seen.view.k > seen.height);
  useEffect(() => {
    const move = (view) => frame.current && put(frame.current, view, camera);
    if (isLarger) move(camera.now());
    camera.watchers.add(move);
    return () => camera.watchers.delete(move);
  }, [isLarger, seen]);
  if (!isLarger) return null;
  const pad = Math.max(drawing.width, drawing.height) * 0.02;
  const k = Math.min(WIDTH / (drawing.width + pad * 2), HEIGHT / (drawing.height + pad * 2));
  const go = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    event.preventDefault();
    event.stopPropagation();
    event.currentTarget.setPointerCapture(event.pointerId);
    const box = event.currentTarget.getBoundingClientRect();
    const point = new DOMPoint(event.clientX - box.left, event.clientY - box.top);
    const view = camera.now();
    const [x, y] = [
      (point.x - box.width / 2) / k + drawing.width / 2,
      (point.y - box.height / 2) / k + drawing.height / 2,
    ];
    camera.to({ ...view, x: x - seen.width / view.k / 2, y: y - seen.height / view.k / 2 });
  };
  return html`
    <svg
      class="minimap"
      width=${WIDTH}
      height=${HEIGHT}
      viewBox="${-pad} ${-pad} ${drawing.width + pad * 2} ${drawing.height + pad * 2}"
      aria-hidden="true"
      onPointerDown=${go}
      onPointerMove=${go}
    >
      ${paths.map((one) => html`<path key=${one.key} class="block" data-tone=${one.tone} d=${one.path} />`)}
      <rect ref=${frame} class="view" vector-effect="non-scaling-stroke" />
    </svg>
  `;
}

function put(rect, view, camera) {
  const box = camera.box.current;
  rect.setAttribute("x", String(view.x));
  rect.setAttribute("y", String(view.y));
  rect.setAttribute("width", String(box.clientWidth / view.k));
  rect.setAttribute("height", String(box.clientHeight / view.k));
}
