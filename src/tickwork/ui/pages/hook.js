// The page of a hook: its URL, configuration, a test command and the last deliveries.

import { html, useState } from "../vendor/core.js";
import { address, part, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { bytes } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { go, href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/hooks.js";
import { Code } from "../parts/highlighted-code.js";
import { CopyAs, CopyButton, curl } from "../parts/copy-button.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { Tree } from "../parts/json-tree.js";
import { Moment, When } from "../parts/relative-time.js";
import { HookForm } from "./hook-form.js";
import { commandOf, sampleOf } from "./hook-test-command.js";
import { Starts } from "./hooks.js";

const SIGNS = {
  github: "X-Hub-Signature-256, of the body",
  stripe: "Stripe-Signature, of the time and the body",
  generic: "X-Tickwork-Signature, of the time and the body",
};

/** @param {{params: {name: string}}} props */
export default function Hook({ params }) {
  const path = `/hooks/${part(params.name)}`;
  const { data, problem, isLoading, refresh } = useResource(path, { live: onTopics("hooks") });
  const [isEditing, setEditing] = useState(false);
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const { name, spec } = data;
  const url = new URL(`../../hooks/${part(name)}`, address("")).href;
  const away = async () => {
    const text = TEXTS.deleteHookText;
    if (!(await ask({ title: TEXTS.deleteHookTitle(name), text, does: "Delete", isBad: true }))) return;
    if ((await attempt(() => remove(path), TEXTS.hookDeleted(name))) !== undefined) go("/hooks");
  };
  const actions = html`
    <${CopyAs} forms=${{ curl: curl("PUT", path, spec), cli: commandOf(name, spec) }} />
    ${may("admin") && html`
      <button onClick=${() => setEditing(true)}><${Icon} name="pencil" />Edit</button>
      <button onClick=${away}><${Icon} name="trash-2" />Delete</button>
    `}
  `;
  return html`
    <${Page} title=${name} trail=${[{ label: "Hooks", href: "#/hooks" }]} lead=${spec.description} actions=${actions}>
      <${Panel} title="Webhook URL">
        <div class="token"><code>${url}</code><${CopyButton} text=${url} label="Copy URL" /></div>
      </${Panel}>
      <div class="grid-2">
        <${Panel} title="Configuration">
          <${Facts}
            items=${[
              ["Starts", html`<${Starts} spec=${spec} />`],
              ["Event types", spec.events?.length ? spec.events.join(", ") : "all"],
              ["Signed with", html`<code>${spec.secret}</code>`],
              ["Signature", SIGNS[spec.style]],
              ["Message id", spec.key || (spec.style === "stripe" ? "event id" : "signature")],
              ["Repeats ignored for", spec.window || "1 day"],
              ["Edited", html`<${When} at=${data.edited_at} />`],
            ]}
          />
          ${spec.args && html`
            <div class="inner"><h3>Arguments</h3><${Tree} value=${spec.args} label="arguments" /></div>
          `}
        </${Panel}>
        <${Panel} title="Test it">
          <div class="inner stack">
            <p class="dim">${TEXTS.hookSample} <code>SECRET</code> is the value of the secret.</p>
            <${Code} text=${sampleOf(url, spec)} language="bash" />
          </div>
        </${Panel}>
      </div>
      <${Deliveries} path=${path} isDag=${Boolean(spec.dag)} />
      ${isEditing && html`<${HookForm} name=${name} onClose=${() => setEditing(false)} onStored=${refresh} />`}
    </${Page}>
  `;
}

const columns = (isDag) => [
  { id: "came", title: "Received", cell: (one) => html`<${Moment} at=${one.received_at} />` },
  { id: "outcome", title: "Outcome", cell: (one) => html`<${State} state=${one.outcome} />` },
  {
    id: "event",
    title: "Type",
    from: /** @type {const} */ ("phone"),
    cell: (one) => html`<span class="wrap-anywhere">${one.event}</span>`,
  },
  {
    id: "job",
    title: "Started",
    cell: (one) =>
      one.job_id && html`
        <a class="link" href=${href(`/${isDag ? "runs" : "jobs"}/${part(one.job_id)}`)}>${isDag ? "run" : "job"}</a>
      `,
  },
  {
    id: "why",
    title: "Why",
    cell: (one) => html`
      <span class="wrap-anywhere">${one.reason || (one.outcome === "duplicate" ? "repeated message" : "")}</span>
    `,
  },
  {
    id: "size",
    title: "Size",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("tablet"),
    cell: (one) => bytes(one.size),
  },
];

function Deliveries({ path, isDag }) {
  const { data, problem, refresh } = useResource(`${path}/deliveries`, {
    live: onAny(onTopics("hooks"), onJobs),
    every: 10,
  });
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  return html`
    <${Panel} title="Deliveries">
      ${!data
        ? html`<${Loading} />`
        : data.items.length
          ? html`<${Table} label="Deliveries" columns=${columns(isDag)} rows=${data.items} />`
          : html`<p class="dim">${TEXTS.noDeliveries}</p>`}
    </${Panel}>
  `;
}
