// The hooks page: the list of incoming webhooks and what they start.

import { html, useState } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useList } from "../lib/data.js";
import { onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { go, href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/hooks.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Page, Panel } from "../parts/page-layout.js";
import { More, Table } from "../parts/table.js";
import { When } from "../parts/relative-time.js";
import { HookForm } from "./hook-form.js";

const CODE = `tickwork secrets set GITHUB_HOOK < secret.txt
tickwork hooks add pushed --style github --secret GITHUB_HOOK \\
    --task build --arg 'commit=\${body.after}' --event push`;

/** The task or dag of a hook, as a link. @param {{spec: any}} props */
export function Starts({ spec }) {
  const to = spec.dag ? href(`/dags/${part(spec.dag)}`) : href("/jobs", { q: word("task", spec.task) });
  return html`<a href=${to}><span class="dim">${spec.dag ? "dag" : "task"}</span> ${spec.dag || spec.task}</a>`;
}

const columns = [
  {
    id: "name",
    title: "Hook",
    cell: (hook) => html`
      <a href=${href(`/hooks/${part(hook.name)}`)}><b>${hook.name}</b></a>
      ${hook.spec.description && html` <span class="dim clip" data-from="tablet">${hook.spec.description}</span>`}
    `,
  },
  { id: "starts", title: "Starts", cell: (hook) => html`<${Starts} spec=${hook.spec} />` },
  { id: "style", title: "Signature", from: /** @type {const} */ ("phone"), cell: (hook) => html`${hook.spec.style}` },
  {
    id: "events",
    title: "Event types",
    from: /** @type {const} */ ("phone"),
    cell: (hook) =>
      hook.spec.events?.length
        ? html`
            <span class="row">
              ${hook.spec.events.map((one) => html`<span class="tag" title=${one}>${one}</span>`)}
            </span>
          `
        : html`<span class="dim">all</span>`,
  },
  {
    id: "secret",
    title: "Secret",
    from: /** @type {const} */ ("desk"),
    cell: (hook) => html`<code class="dim">${hook.spec.secret}</code>`,
  },
  {
    id: "edited",
    title: "Edited",
    from: /** @type {const} */ ("tablet"),
    cell: (hook) => html`<${When} at=${hook.edited_at} />`,
  },
];

export default function Hooks() {
  const list = useList("/hooks", { live: onTopics("hooks"), idOf: (hook) => hook.name, limit: 100 });
  const [isMaking, setMaking] = useState(false);
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  const add =
    may("admin") && html`
      <button class="main" onClick=${() => setMaking(true)}><${Icon} name="plus" />New hook</button>
    `;
  return html`
    <${Page} title="Hooks" lead=${TEXTS.hooksLead} actions=${add}>
      <${Panel} label="Hooks">
        ${list.items.length
          ? html`
              <${Table}
                label="Hooks"
                columns=${columns}
                rows=${list.items}
                idOf=${(hook) => hook.name}
                hrefOf=${(hook) => href(`/hooks/${part(hook.name)}`)}
              />
              ${list.hasMore && html`<${More} list=${list} />`}
            `
          : html`
              <${Empty} icon="webhook" title="No hooks yet" code=${CODE} language="bash">${TEXTS.noHooksText}</${Empty}>
            `}
      </${Panel}>
      ${list.fresh > 0 && html`<button onClick=${list.showFresh}>${list.fresh} new</button>`}
      ${isMaking && html`
        <${HookForm} onClose=${() => setMaking(false)} onStored=${(hook) => go(`/hooks/${part(hook.name)}`)} />
      `}
    </${Page}>
  `;
}
