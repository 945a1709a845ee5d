// The configuration in force: every setting, its value and its source.

import { html } from "../vendor/core.js";
import { useResource } from "../lib/data.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";

const columns = [
  {
    id: "name",
    title: "Setting",
    cell: (one) => html`<code title=${`${one.description} ${one.variable}`}>${one.name}</code>`,
  },
  {
    id: "value",
    title: "Value",
    cell: (one) =>
      one.value === null
        ? html`<span class="dim">not set</span>`
        : html`<code class="wrap-anywhere">${String(one.value)}</code>`,
  },
  {
    id: "source",
    title: "Source",
    cell: (one) => html`<span class=${one.source === "default" ? "dim" : ""}>${one.source}</span>`,
  },
];

export default function Configuration() {
  const { data, problem, isLoading, refresh } = useResource("/config");
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  return html`
    <${Panel} title="Configuration of this server">
      <p class="dim">
        Command line arguments take precedence over the environment, the environment over <code>tickwork.toml</code>,
        and the file over defaults. Passwords are masked. Other servers and workers have their own configuration.
      </p>
      <${Table} label="Settings" columns=${columns} rows=${data.items} idOf=${(one) => one.name} />
    </${Panel}>
  `;
}
