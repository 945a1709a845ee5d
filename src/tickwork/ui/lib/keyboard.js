// Keyboard shortcuts: one listener for the page. The component that was mounted last is asked first; typing in fields
// is ignored.

import { useLayoutEffect, useRef } from "../vendor/core.js";

/** @typedef {{keys: string, does: string, run: (event: KeyboardEvent) => void}} Binding */

/** @type {{current: Binding[]}[]} */
const layers = [];
let prefix = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let forgets;

/** All active shortcuts, for the help dialog. */
export const bindings = () => layers.flatMap((layer) => layer.current);

/**
 * Register shortcuts while a component is mounted: "j", "Shift+J", "g j" (in sequence), "Ctrl+k", "Escape".
 * @param {Binding[]} known
 */
export function useKeys(known) {
  const layer = useRef(known);
  layer.current = known;
  useLayoutEffect(() => {
    layers.push(layer); // synchronously, so that a visible shortcut works
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

function typing(target) {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

function nameOf(event) {
  const key =
    event.key.length === 1 && event.shiftKey && /[a-z]/i.test(event.key)
      ? `Shift+${event.key.toUpperCase()}`
      : event.key;
  return event.ctrlKey || event.metaKey ? `Ctrl+${key}` : key;
}

/** Whether the focused element handles this key itself. */
const isPress = (name, target) =>
  (name === "Enter" || name === " ") &&
  target instanceof Element &&
  target.closest("a, button, summary, [role=button], [role=tab], [role=menuitem], [role=option]") !== null;

addEventListener("keydown", (event) => {
  if (event.altKey || event.defaultPrevented) return;
  const name = nameOf(event);
  if (isPress(name, event.target)) return;
  const isGlobal = name.startsWith("Ctrl+");
  if (!isGlobal && (typing(event.target) || document.querySelector("dialog[open]"))) return;
  const said = prefix ? `${prefix} ${name}` : name;
  for (const layer of [...layers].reverse()) {
    const found = layer.current.find((one) => one.keys === said);
    if (found) {
      event.preventDefault();
      prefix = "";
      found.run(event);
      return;
    }
  }
  prefix = "";
  clearTimeout(forgets);
  if (bindings().some((one) => one.keys.startsWith(`${name} `))) {
    prefix = name;
    forgets = setTimeout(() => (prefix = ""), 1200);
  }
});
