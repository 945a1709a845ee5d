// A button that opens a menu of actions.

import { html, useEffect, useId, useRef, useState } from "../vendor/core.js";
import { Icon } from "./icon.js";

/**
 * @typedef {{label: string, icon?: string, run?: () => void, href?: string, isBad?: boolean, hint?: string, isOn?:
 *   boolean} | "line" | null | false} Item
 */

/** @param {{label: any, icon?: string, items: Item[], title?: string, class?: string, align?: "left"|"right"}} props */
export function Menu({ label, icon, items, title, class: more = "", align = "left" }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    if (!isOpen) return undefined;
    const outside = (event) => !box.current.contains(event.target) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    const items = /** @type {HTMLElement} */ (box.current.querySelector("[role=menu]"));
    items.showPopover(); // in the top layer, so nothing clips it
    put(items, box.current.getBoundingClientRect(), align);
    /** @type {HTMLElement} */ (items.querySelector("[role=menuitem]"))?.focus();
    return () => document.removeEventListener("pointerdown", outside);
  }, [isOpen]);
  const leave = () => {
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  const onKeyDown = (event) => {
    const all = /** @type {HTMLElement[]} */ ([...box.current.querySelectorAll("[role=menuitem]")]);
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) all[(at + step + all.length) % all.length].focus();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`
    <span class="menu ${more}" ref=${box} onKeyDown=${isOpen ? onKeyDown : undefined}>
      <button
        type="button"
        aria-haspopup="menu"
        aria-expanded=${isOpen}
        aria-controls=${isOpen ? id : undefined}
        title=${title}
        aria-label=${label ? undefined : title}
        onClick=${() => setOpen(!isOpen)}
      >
        ${icon && html`<${Icon} name=${icon} />`}
        ${label}
        ${label && html`<${Icon} name="chevron-down" class="small" />`}
      </button>
      ${isOpen && html`
        <div id=${id} class="items" role="menu" popover="manual">
          ${items.filter(Boolean).map((item) => html`<${One} item=${item} close=${leave} />`)}
        </div>
      `}
    </span>
  `;
}

const GAP = 4;

/** Place a menu below its button, or above if there is no room. */
function put(items, button, align) {
  const { width, height } = items.getBoundingClientRect();
  const left = align === "right" ? button.right - width : button.left;
  const below = button.bottom + GAP;
  items.style.left = `${Math.max(GAP, Math.min(left, innerWidth - width - GAP))}px`;
  items.style.top = `${below + height < innerHeight ? below : Math.max(GAP, button.top - GAP - height)}px`;
}

function One({ item, close }) {
  if (item === "line") return html`<hr role="separator" />`;
  const inner = html`
    ${item.icon && html`<${Icon} name=${item.icon} />`}
    <span>${item.label}</span>
    ${item.isOn && html`<${Icon} name="check" class="end" />`}
    ${item.hint && html`<kbd class="end">${item.hint}</kbd>`}
  `;
  if (item.href) return html`<a role="menuitem" tabindex="-1" href=${item.href} onClick=${close}>${inner}</a>`;
  return html`
    <button
      type="button"
      role="menuitem"
      tabindex="-1"
      class=${item.isBad ? "bad-text" : ""}
      onClick=${() => {
        close();
        item.run();
      }}
    >
      ${inner}
    </button>
  `;
}
