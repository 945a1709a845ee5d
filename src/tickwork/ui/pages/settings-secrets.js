// Secrets: names, authors and times. No page and no route shows a value.

import { html, useState } from "../vendor/core.js";
import { part, put, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { TEXTS } from "../texts/settings.js";
import { CopyButton } from "../parts/copy-button.js";
import { ask, FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";

const CODE = "tickwork secrets set SMTP_PASSWORD < password.txt";

/** The reference to a secret in definitions. @param {string} name */
export const reference = (name) => `\${secret.${name}}`;

async function forget(secret, refresh) {
  const text = TEXTS.deleteSecretText(reference(secret.name));
  if (!(await ask({ title: TEXTS.deleteSecretTitle(secret.name), text, does: "Delete", isBad: true }))) return;
  await attempt(() => remove(`/secrets/${part(secret.name)}`).then(refresh), TEXTS.secretDeleted(secret.name));
}

const columns = (open, refresh) => [
  { id: "name", title: "Name", cell: (secret) => html`<b class="mono">${secret.name}</b>` },
  {
    id: "asked",
    title: "Reference",
    from: /** @type {const} */ ("phone"),
    cell: (secret) => html`
      <code class="dim">${reference(secret.name)}</code>${" "}
      <${CopyButton} text=${reference(secret.name)} label="Copy reference to ${secret.name}" />
    `,
  },
  {
    id: "for",
    title: "Allowed for",
    from: /** @type {const} */ ("tablet"),
    cell: (secret) =>
      secret.uses.length
        ? secret.uses.map((use) => html`<span class="tag">${use}</span> `)
        : html`<span class="dim">all jobs</span>`,
  },
  {
    id: "set",
    title: "Updated",
    cell: (secret) => html`
      <${When} at=${secret.set_at} />${" "}
      <span class="dim" data-from="phone">by ${secret.set_by}</span>
    `,
  },
  {
    id: "do",
    title: html`<span class="hidden-label">Actions</span>`,
    align: /** @type {const} */ ("right"),
    cell: (secret) => html`
      <button class="bare" aria-label="Replace ${secret.name}" onClick=${() => open(secret.name)}>
        <${Icon} name="pencil" />
      </button>
      <button class="bare" aria-label="Delete ${secret.name}" onClick=${() => forget(secret, refresh)}>
        <${Icon} name="trash-2" />
      </button>
    `,
  },
];

export default function Secrets() {
  const { data, problem, isLoading, refresh } = useResource("/secrets");
  const [opened, open] = useState(/** @type {string | null} */ (null));
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const set = async (values) => {
    const name = opened || values.name;
    const uses = (values.uses || "").split(/[\s,]+/).filter(Boolean);
    await put(`/secrets/${part(name)}`, { value: values.value, uses });
    say(TEXTS.secretSaved(reference(name)));
    await refresh();
  };
  return html`
    <${Panel}
      title="Secrets"
      actions=${html`<button class="main" onClick=${() => open("")}><${Icon} name="plus" />New secret</button>`}
    >
      ${data.items.length
        ? html`
            <${Table}
              label="Secrets"
              columns=${columns(open, refresh)}
              rows=${data.items}
              idOf=${(secret) => secret.name}
            />
          `
        : html`
            <${Empty} icon="lock" title="No secrets yet" code=${CODE} language="bash">${TEXTS.noSecretsText}</${Empty}>
          `}
    </${Panel}>
    ${opened !== null && html`
      <${FormDialog}
        title=${opened ? `Replace ${opened}` : "New secret"}
        does="Save"
        onClose=${() => open(null)}
        onSubmit=${set}
      >
        ${!opened && html`
          <label class="field">
            <span>Name</span>
            <input
              name="name"
              required
              autofocus
              autocomplete="off"
              placeholder="SMTP_PASSWORD"
              pattern="[A-Za-z_][A-Za-z0-9_]*"
            />
            <small>Letters, digits and _.</small>
          </label>
        `}
        <label class="field">
          <span>Value</span>
          <input name="value" type="password" required autocomplete="off" autofocus=${Boolean(opened)} />
          <small>${TEXTS.secretValueHint}</small>
        </label>
        <label class="field">
          <span>Allowed for</span>
          <input
            name="uses"
            autocomplete="off"
            placeholder="task:charge, queue:payments"
            value=${(data.items.find((one) => one.name === opened)?.uses || []).join(", ")}
          />
          <small>${TEXTS.secretAllowedHint}</small>
        </label>
      </${FormDialog}>
    `}
  `;
}
