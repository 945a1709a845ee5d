// Tenants and their weights.

import { html } from "../vendor/core.js";
import { part, put } from "../lib/api.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/queues.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { FormDialog } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";
import { Empty } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";

const CODE = `# A tenant is the owner of a job. Tenants of one queue take turns.
send_email.options(tenant="acme").enqueue(to="ada@example.org")

app.set_weight("acme", 3)  # three turns for each turn of the others`;

/** @param {{tenants: any[], refresh: () => void, open: (what: any) => void}} props */
export function Tenants({ tenants, refresh, open }) {
  if (!tenants.length) {
    return html`
      <${Panel} label="Tenants">
        <${Empty} icon="users" title=${TEXTS.equalTenants} code=${CODE}>${TEXTS.equalTenantsText}</${Empty}>
      </${Panel}>
    `;
  }
  const most = Math.max(...tenants.map((one) => one.weight));
  const even = (tenant) =>
    attempt(() => put(`/tenants/${part(tenant.name)}`, { weight: 1 }).then(refresh), TEXTS.weightReset(tenant.name));
  /** @type {import("../parts/table.js").Column[]} */
  const columns = [
    {
      id: "name",
      title: "Tenant",
      cell: (row) => html`<a href=${href("/jobs", { q: word("tenant", row.name) })}><b>${row.name}</b></a>`,
    },
    {
      id: "weight",
      title: "Weight",
      cell: (row) => html`
        <span class="weight">
          <span class="num">${row.weight}</span>
          <span class="bar-track" aria-hidden="true"><i style=${{ width: `${(row.weight / most) * 100}%` }}></i></span>
        </span>
      `,
    },
  ];
  if (may("operate")) {
    columns.push({
      id: "do",
      title: html`<span class="hidden-label">Actions</span>`,
      align: "right",
      cell: (row) => html`
        <${Menu}
          icon="ellipsis"
          title=${`Actions for tenant ${row.name}`}
          class="icon-only"
          align="right"
          items=${[
            { label: "Change weight…", icon: "pencil", run: () => open({ weight: row }) },
            { label: "Reset to 1", icon: "undo-2", run: () => even(row) },
          ]}
        />
      `,
    });
  }
  return html`
    <${Panel} label="Tenants">
      <${Table} label="Tenants" columns=${columns} rows=${tenants} idOf=${(row) => row.name} />
    </${Panel}>
    <p class="dim small">All other tenants have weight 1.</p>
  `;
}

/** @param {{given: {name?: string, weight?: number}, onClose: () => void, onDone: () => void}} props */
export function WeightDialog({ given, onClose, onDone }) {
  const submit = async ({ name = "", weight }) => {
    await put(`/tenants/${part(name)}`, { weight });
    say(TEXTS.weightSet(name));
    onDone();
  };
  return html`
    <${FormDialog}
      title=${given.name ? `Weight of ${given.name}` : "Set weight"}
      does="Save"
      onClose=${onClose}
      onSubmit=${submit}
    >
      <p class="dim">${TEXTS.weightText}</p>
      <div class="fields">
        <label class="field">
          <span>Tenant</span>
          <input name="name" required maxlength="200" value=${given.name || ""} readonly=${Boolean(given.name)} />
        </label>
        <label class="field">
          <span>Weight (1 to 100)</span>
          <input name="weight" type="number" min="1" max="100" required value=${given.weight || 2} autofocus />
        </label>
      </div>
      ${given.name && html`
        <div>
          <${CopyAs}
            forms=${{
              curl: curl("PUT", `/tenants/${part(given.name)}`, { weight: given.weight }),
              cli: `tickwork tenants set ${quoted(given.name)} ${given.weight}`,
              python: `app.set_weight(${JSON.stringify(given.name)}, ${given.weight})`,
            }}
          />
        </div>
      `}
    </${FormDialog}>
  `;
}
