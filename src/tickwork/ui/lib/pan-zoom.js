// Pan and zoom for a large drawing: by dragging, wheel, two fingers and keyboard.
//
// While dragging, only the container is shifted, which is cheap for the browser; visible content is chosen again
// when the view approaches the edge of the drawn part.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/core.js";

/** @typedef {{x: number, y: number, k: number}} View where the left upper corner is, and how many pixels a unit has */

const LEAST = 0.04;
const MOST = 2;
/** Margin that is drawn beyond the view on each side, as a share of the view. */
export const MARGIN = 0.35;

/**
 * @param {{width: number, height: number}} size of the whole
 * @param {(width: number, height: number) => {view: View, isWhole: boolean}} first
 */
export function useCamera(size, first) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const paper = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState(/** @type {{view: View, width: number, height: number} | null} */ (null));
  const live = useRef(/** @type {View | null} */ (null)); // the current view, ahead of the drawn one
  const drawnAt = useRef(/** @type {View | null} */ (null));
  const whole = useRef(size);
  whole.current = size;
  const frame = useRef(0);
  const isWhole = useRef(false); // the whole drawing is fitted, and stays fitted on resize
  const watchers = useRef(/** @type {Set<(view: View) => void>} */ (new Set()));

  const commit = useCallback(() => {
    const { clientWidth: width, clientHeight: height } = box.current;
    setSeen({ view: live.current, width, height });
  }, []);

  /** Move to a view. The content is redrawn only after zooming or a long move. */
  const to = useCallback((view, whole = false) => {
    isWhole.current = whole;
    live.current = { ...view, k: Math.min(MOST, Math.max(LEAST, view.k)) };
    if (frame.current) return;
    frame.current = requestAnimationFrame(() => {
      frame.current = 0;
      const [now, then] = [live.current, drawnAt.current];
      const [dx, dy] = [(then.x - now.x) * now.k, (then.y - now.y) * now.k];
      const isNear =
        now.k === then.k &&
        Math.abs(dx) < box.current.clientWidth * MARGIN &&
        Math.abs(dy) < box.current.clientHeight * MARGIN;
      if (isNear) paper.current.style.transform = `translate3d(${dx}px, ${dy}px, 0)`;
      else commit();
      for (const watch of watchers.current) watch(now);
    });
  }, []);

  useLayoutEffect(() => {
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = box.current || {};
      if (!width) return;
      const begun = live.current === null && first(width, height);
      if (begun) isWhole.current = begun.isWhole;
      live.current = begun ? begun.view : isWhole.current ? fitted(whole.current, width, height) : live.current;
      commit();
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame.current);
    };
  }, []);
  useLayoutEffect(() => {
    if (!seen) return;
    drawnAt.current = seen.view;
    paper.current.style.transform = "";
  }, [seen]);
  useEffect(() => pointers(box.current, live, to), []);

  const zoom = (by, at) =>
    to(zoomed(live.current, by, at || [box.current.clientWidth / 2, box.current.clientHeight / 2]));
  const pan = (dx, dy) =>
    to({ ...live.current, x: live.current.x + dx / live.current.k, y: live.current.y + dy / live.current.k });
  const fit = () => to(fitted(size, box.current.clientWidth, box.current.clientHeight), true);
  /** Bring a place into view at a readable size. @param {import("./graph-layout.js").Place} place */
  const show = (place, isCentred = false) => {
    const { clientWidth: width, clientHeight: height } = box.current;
    const k = Math.max(live.current.k, 0.7);
    const { x, y } = live.current;
    const isSeen =
      k === live.current.k &&
      place.x > x &&
      place.y > y &&
      place.x + place.width < x + width / k &&
      place.y + place.height < y + height / k;
    if (!isSeen || isCentred) {
      to({ k, x: place.x + place.width / 2 - width / k / 2, y: place.y + place.height / 2 - height / k / 2 });
    }
  };
  return { box, paper, seen, zoom, pan, fit, show, to, watchers: watchers.current, now: () => live.current };
}

/** @param {View} view @param {number} by @param {number[]} at in pixels: what is there stays there */
export function zoomed(view, by, [px, py]) {
  const k = Math.min(MOST, Math.max(LEAST, view.k * by));
  return { k, x: view.x + px / view.k - px / k, y: view.y + py / view.k - py / k };
}

/** Fit the whole drawing, centred, at most at its natural size. */
export function fitted(size, width, height, least = 0) {
  const pad = 36;
  const k = Math.max(least, Math.min(1, (width - pad * 2) / size.width, (height - pad * 2) / size.height));
  return {
    k,
    x: Math.min(-pad / k, size.width / 2 - width / k / 2),
    y: size.height * k > height ? -pad / k : size.height / 2 - height / k / 2,
  };
}

function pointers(element, live, to) {
  const down = new Map();
  let moved = 0;
  const place = (event) => {
    const { left, top } = element.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const press = (event) => {
    if (event.button || event.target.closest("button, input, a")) return;
    down.set(event.pointerId, place(event));
    moved = 0;
  };
  const drag = (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const at = place(event);
    moved += Math.abs(at[0] - before[0]) + Math.abs(at[1] - before[1]);
    if (moved > 4 && !element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
    if (moved > 4) {
      to(
        down.size > 1
          ? pinched(live.current, [...down].find(([id]) => id !== event.pointerId)[1], before, at)
          : shifted(live.current, before, at),
      );
    }
    down.set(event.pointerId, at);
  };
  const lift = (event) => down.delete(event.pointerId);
  // The end of a drag on a step does not select it.
  const click = (event) => moved > 4 && (event.stopPropagation(), event.preventDefault());
  const wheel = (event) => {
    event.preventDefault();
    const size = event.deltaMode ? event.deltaY * 16 : event.deltaY;
    if (event.shiftKey) to({ ...live.current, x: live.current.x + (event.deltaX || size) / live.current.k });
    else to(zoomed(live.current, Math.exp(-size * (event.ctrlKey ? 0.01 : 0.0016)), place(event)));
  };
  const events = { pointerdown: press, pointermove: drag, pointerup: lift, pointercancel: lift };
  for (const [name, run] of Object.entries(events)) element.addEventListener(name, run);
  element.addEventListener("click", click, true);
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    for (const [name, run] of Object.entries(events)) element.removeEventListener(name, run);
    element.removeEventListener("click", click, true);
    element.removeEventListener("wheel", wheel);
  };
}

const shifted = (view, before, at) => ({
  ...view,
  x: view.x - (at[0] - before[0]) / view.k,
  y: view.y - (at[1] - before[1]) / view.k,
});

function pinched(view, other, before, at) {
  const distance = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
  return zoomed(view, distance(at) / distance(before), other);
}
