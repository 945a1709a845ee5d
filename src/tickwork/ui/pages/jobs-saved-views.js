// Saved views of the jobs page: named queries, stored in this browser.

import { html, useState } from "../vendor/core.js";
import { remembered } from "../lib/browser-prefs.js";
import { href } from "../lib/router.js";
import { TEXTS } from "../texts/jobs.js";
import { FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { say } from "../parts/toast.js";

/** @typedef {{name: string, q: string}} View */
const views = remembered("job-views", /** @type {View[]} */ ([]));

function forget(view) {
  const before = views.value;
  views.value = before.filter((one) => one.name !== view.name);
  say(TEXTS.viewDeleted(view.name), { action: { label: "Undo", run: () => (views.value = before) } });
}

/** The saved views as links, and a button that saves the current one. @param {{text: string}} props */
export function Views({ text }) {
  const [isSaving, setSaving] = useState(false);
  const here = views.value.find((one) => one.q === text);
  return html`
    ${views.value.length > 0 && html`
      <nav class="views" aria-label="Saved views">
        ${views.value.map(
          (one) => html`
            <a
              key=${one.name}
              href=${href("/jobs", { q: one.q })}
              title=${one.q}
              aria-current=${one === here ? "page" : undefined}
            >
              <${Icon} name="star" class="small" />
              ${one.name}
            </a>
          `,
        )}
        ${here && html`
          <button
            class="bare"
            aria-label="Delete view ${here.name}"
            title="Delete view ${here.name}"
            onClick=${() => forget(here)}
          >
            <${Icon} name="x" />
          </button>
        `}
      </nav>
    `}
    ${text && !here && html`
      <button class="bare save-view" onClick=${() => setSaving(true)}><${Icon} name="star" />Save view</button>
    `}
    ${isSaving && html`<${SaveView} text=${text} onClose=${() => setSaving(false)} />`}
  `;
}

function SaveView({ text, onClose }) {
  const save = async ({ name }) => {
    views.value = [...views.value.filter((one) => one.name !== name), { name, q: text }];
  };
  return html`
    <${FormDialog} title="Save view" does="Save" onSubmit=${save} onClose=${onClose}>
      <p class="dim">
        Saves <code>${text}</code> in this browser under a name. To share a view, send the URL of this page.
      </p>
      <label class="field">
        <span>Name</span>
        <input name="name" required maxlength="40" autofocus autocomplete="off" placeholder="Failing mail" />
      </label>
    </${FormDialog}>
  `;
}
