// The version of Tickwork and the licences of third-party components.

import { html, useEffect, useState } from "../vendor/core.js";
import { address } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { TEXTS } from "../texts/settings.js";
import { Icon } from "../parts/icon.js";
import { Loading } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";

const RECORD = new URL("../vendor/vendor.json", import.meta.url);

const columns = [
  { id: "name", title: "Component", cell: (one) => html`<b>${one.name}</b>` },
  { id: "version", title: "Version", cell: (one) => html`<span class="num">${one.version}</span>` },
  { id: "license", title: "Licence", cell: (one) => one.license },
  {
    id: "file",
    title: "In",
    from: /** @type {const} */ ("phone"),
    cell: (one) => html`<code class="dim">vendor/${one.file}</code>`,
  },
];

export default function About() {
  const { data: health } = useResource("/health");
  const [parts, setParts] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    fetch(RECORD)
      .then((answer) => answer.json())
      .then(
        (record) =>
          setParts(Object.entries(record).flatMap(([file, { from }]) => from.map((one) => ({ ...one, file })))),
        () => setParts([]),
      );
  }, []);
  return html`
    <${Panel} title="Tickwork">
      <div class="inner stack">
        <p class="you">
          <b>${health ? `Version ${health.version}` : "Tickwork"}</b>${" "}
          <span class="dim">Apache-2.0</span>
        </p>
        <p class="about-links">
          <a class="link" href=${address("/docs").pathname}><${Icon} name="code" />API reference</a>
          <a class="link" href=${address("/openapi.json").pathname}><${Icon} name="download" />OpenAPI document</a>
        </p>
      </div>
    </${Panel}>
    <${Panel} title="Third-party components">
      <p class="dim">${TEXTS.thirdParty}</p>
      ${parts
        ? html`<${Table} label="Third-party components" columns=${columns} rows=${parts} idOf=${(one) => one.name} />`
        : html`<${Loading} />`}
    </${Panel}>
  `;
}
