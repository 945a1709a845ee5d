// API keys: list, create (the token is shown once) and revoke.

import { html, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { TEXTS } from "../texts/settings.js";
import { CopyButton, curl } from "../parts/copy-button.js";
import { ask, Dialog, FormDialog } from "../parts/dialog.js";
import { Code } from "../parts/highlighted-code.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { SCOPES } from "./settings-scopes.js";

const CODE = `tickwork keys create deploy --scope read --scope enqueue --expires 90d`;
const LASTS = [
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["365d", "1 year"],
  ["never", "never"],
];

async function revoke(key, refresh) {
  const text = TEXTS.revokeKeyText(key.prefix);
  if (!(await ask({ title: TEXTS.revokeKeyTitle(key.name), text, does: "Revoke", isBad: true }))) return;
  await attempt(() => post(`/keys/${part(key.id)}/revoke`).then(refresh), TEXTS.keyRevoked(key.name));
}

const columns = (refresh) => [
  { id: "state", title: "State", cell: (key) => html`<${State} state=${key.state} />` },
  {
    id: "name",
    title: "Name",
    cell: (key) => html`<b>${key.name}</b> <span class="dim mono" data-from="phone">${key.prefix}…</span>`,
  },
  {
    id: "scopes",
    title: "Scopes",
    from: /** @type {const} */ ("phone"),
    cell: (key) => html`<span class="row">${key.scopes.map((scope) => html`<span class="tag">${scope}</span>`)}</span>`,
  },
  { id: "used", title: "Last used", cell: (key) => html`<${When} at=${key.used_at} none="never" />` },
  {
    id: "expires",
    title: "Expires",
    from: /** @type {const} */ ("phone"),
    cell: (key) => html`<${When} at=${key.expires_at} none="never" />`,
  },
  {
    id: "made",
    title: "Created",
    from: /** @type {const} */ ("tablet"),
    cell: (key) => html`<${When} at=${key.created_at} /> <span class="dim">by ${key.created_by}</span>`,
  },
  {
    id: "do",
    title: html`<span class="hidden-label">Actions</span>`,
    align: /** @type {const} */ ("right"),
    cell: (key) =>
      key.state === "live" && html`
        <button class="bare" aria-label="Revoke ${key.name}" onClick=${() => revoke(key, refresh)}>Revoke</button>
      `,
  },
];

export default function Keys() {
  const { data, problem, isLoading, refresh } = useResource("/keys");
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const create = async (values) => {
    const scopes = Object.keys(SCOPES).filter((scope) => values[`scope-${scope}`]);
    setMade(await post("/keys", { name: values.name, scopes, expires: values.expires }));
    await refresh();
  };
  return html`
    <${Panel}
      title="API keys"
      actions=${html`<button class="main" onClick=${() => setMaking(true)}><${Icon} name="plus" />New key</button>`}
    >
      ${data.items.length
        ? html`<${Table} label="API keys" columns=${columns(refresh)} rows=${data.items} />`
        : html`
            <${Empty} icon="key-round" title="No keys yet" code=${CODE} language="bash">${TEXTS.noKeysText}</${Empty}>
          `}
    </${Panel}>
    ${isMaking && html`<${NewKey} onClose=${() => setMaking(false)} onSubmit=${create} />`}
    ${made && html`<${Made} made=${made} onClose=${() => setMade(null)} />`}
  `;
}

function NewKey({ onClose, onSubmit }) {
  return html`
    <${FormDialog} title="New API key" does="Create" onClose=${onClose} onSubmit=${onSubmit}>
      <label class="field">
        <span>Name</span>
        <input name="name" required autofocus autocomplete="off" placeholder="deploy" maxlength="100" />
        <small>${TEXTS.keyNameHint}</small>
      </label>
      <fieldset class="field">
        <legend>Scopes</legend>
        ${Object.entries(SCOPES).map(
          ([scope, does]) => html`
            <label class="check" key=${scope}>
              <input type="checkbox" name="scope-${scope}" defaultChecked=${scope === "read"} />
              <code>${scope}</code>
              <span class="dim">${does}</span>
            </label>
          `,
        )}
      </fieldset>
      <label class="field">
        <span>Expires</span>
        <select name="expires">
          ${LASTS.map(
            ([value, name]) => html`<option key=${value} value=${value} selected=${value === "90d"}>${name}</option>`,
          )}
        </select>
      </label>
    </${FormDialog}>
  `;
}

function Made({ made, onClose }) {
  const sample = curl("GET", "/jobs", undefined, { limit: 10 }).replace("$TICKWORK_KEY", made.token);
  return html`
    <${Dialog}
      title="Key ${made.name}"
      onClose=${onClose}
      wide
      footer=${html`<button class="main" onClick=${onClose}>Done</button>`}
    >
      <${Notice} tone="warn" icon="triangle-alert">${TEXTS.tokenOnce}</${Notice}>
      <div class="token"><code>${made.token}</code><${CopyButton} text=${made.token} label="Copy token" /></div>
      ${made.scopes.some((scope) => scope === "read" || scope === "admin") && html`
        <p class="dim">Test it:</p>
        <${Code} text=${sample} language="bash" />
      `}
    </${Dialog}>
  `;
}
