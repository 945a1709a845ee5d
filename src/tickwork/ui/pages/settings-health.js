// Health.
import { html } from "../vendor/core.js";
export default function Health() {
  return html`<p></p>`;
}
