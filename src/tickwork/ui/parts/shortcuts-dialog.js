// The dialog that lists the active keyboard shortcuts.

import { html, useState } from "../vendor/core.js";
import { bindings } from "../lib/keyboard.js";
import { Dialog } from "./dialog.js";

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  const [known] = useState(() => [...new Map(bindings().map((one) => [one.keys, one])).values()]);
  const groups = [
    ["Go to", known.filter((one) => one.keys.startsWith("g "))],
    ["On this page", known.filter((one) => !one.keys.startsWith("g "))],
  ];
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${onClose} wide>
      <div class="keys">
        ${groups.map(
          ([title, all]) => html`
            <section>
              <h3>${title}</h3>
              <dl>
                ${/** @type {any[]} */ (all).map(
                  (one) => html`
                    <div>
                      <dt>${one.keys.split(" ").map((key) => html`<kbd>${key.replace("Ctrl+k", "Ctrl K")}</kbd>`)}</dt>
                      <dd>${one.does}</dd>
                    </div>
                  `,
                )}
              </dl>
            </section>
          `,
        )}
      </div>
    </${Dialog}>
  `;
}
