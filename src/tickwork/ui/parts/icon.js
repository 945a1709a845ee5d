// An icon of the sprite. It is hidden from screen readers unless it has a label.

import { html } from "../vendor/core.js";

const SPRITE = new URL("../vendor/icons.svg", import.meta.url).pathname;

/** @param {{name: string, label?: string, class?: string}} props */
export function Icon({ name, label, class: more = "" }) {
  return html`
    <svg
      class="icon ${more}"
      aria-hidden=${label ? undefined : "true"}
      role=${label ? "img" : undefined}
      aria-label=${label}
    >
      <use href="${SPRITE}#${name}" />
    </svg>
  `;
}
