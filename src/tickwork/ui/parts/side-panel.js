// A panel beside the page for the selected item; on small screens, a dialog.

import { html, useEffect, useState } from "../vendor/core.js";
import { useKeys } from "../lib/keyboard.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";

const wide = matchMedia("(min-width: 1100px)");

/** @param {{title: string, onClose: () => void, children: any}} props */
export function SidePanel({ title, onClose, children }) {
  const [isWide, setWide] = useState(wide.matches);
  useEffect(() => {
    const change = () => setWide(wide.matches);
    wide.addEventListener("change", change);
    return () => wide.removeEventListener("change", change);
  }, []);
  useKeys([{ keys: "Escape", does: "close side panel", run: onClose }]);
  if (!isWide) return html`<${Dialog} title=${title} onClose=${onClose} drawer>${children}</${Dialog}>`;
  return html`
    <aside class="side-panel" aria-label=${title}>
      <header>
        <h2 class="clip" title=${title}>${title}</h2>
        <button class="bare" aria-label="Close" onClick=${onClose}><${Icon} name="x" /></button>
      </header>
      <div class="body">${children}</div>
    </aside>
  `;
}
