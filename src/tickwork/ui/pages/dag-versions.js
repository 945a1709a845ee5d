// The versions of a dag, and the changed steps between two versions.

import { html } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { part } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { place, setQuery } from "../lib/router.js";
import { TEXTS } from "../texts/dags.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { More } from "../parts/table.js";
import { When } from "../parts/relative-time.js";

/** @param {{dag: any}} props */
export function Versions({ dag }) {
  const list = useList(`/dags/${part(dag.name)}/versions`, {
    live: onTopics("dags"),
    idOf: (one) => String(one.version),
  });
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  const newest = list.items[0].version;
  const to = Number(place.value.query.new) || newest;
  const from = Number(place.value.query.old) || to - 1;
  return html`
    <div class="versions">
      <${Panel} title="Versions" label="Versions">
        <ol class="version-list">
          ${list.items.map(
            (one) => html`
              <li key=${one.version} aria-current=${one.version === to ? "true" : undefined}>
                <button
                  class="bare"
                  onClick=${() => setQuery({ new: one.version === newest ? undefined : one.version, old: undefined })}
                  title="Changes"
                >
                  <b class="num"><span class="hidden-label">Version </span>${one.version}</b>
                  <span>${many(one.steps, "step")}</span>
                  <span class="dim"><${When} at=${one.created_at} /></span>
                </button>
              </li>
            `,
          )}
        </ol>
        <${More} list=${list} />
      </${Panel}>
      ${from >= 1
        ? html`<${Diff} dag=${dag} versions=${list.items} from=${from} to=${to} />`
        : html`
            <${Panel} title="Version 1">
              <${Empty} icon="git-branch" title=${TEXTS.firstVersion}>${TEXTS.noEarlierVersion}</${Empty}>
            </${Panel}>
          `}
    </div>
  `;
}

function Diff({ dag, versions, from, to }) {
  const { data, problem } = useResource(`/dags/${part(dag.name)}/diff`, { query: { old: from, new: to } });
  const options = versions.filter((one) => one.version !== to);
  const choose = html`
    <label class="row tight small">
      <span class="dim">compared with</span>
      <select value=${from} onChange=${(event) => setQuery({ old: event.target.value })}>
        ${options.map((one) => html`<option value=${one.version}>version ${one.version}</option>`)}
      </select>
    </label>
  `;
  const open = html`
    <button
      onClick=${() =>
        setQuery(
          { tab: undefined, version: to === dag.newest ? undefined : to, old: undefined, new: undefined },
          { push: true },
        )}
    >
      <${Icon} name="workflow" />Graph
    </button>
  `;
  return html`
    <${Panel} title="Changes in version ${to}" actions=${html`<span class="row">${choose}${open}</span>`}>
      ${problem
        ? html`<${Trouble} problem=${problem} />`
        : !data
          ? html`<${Loading} />`
          : html`<${Changes} changes=${data.changes} />`}
    </${Panel}>
  `;
}

const SIGNS = { added: ["plus", "good"], removed: ["minus", "bad"], changed: ["pencil", "warn"] };

function Changes({ changes }) {
  if (!changes.length) return html`<${Empty} icon="check" title=${TEXTS.stepsUnchanged} />`;
  const steps = new Map();
  for (const one of changes) steps.has(one.step) ? steps.get(one.step).push(one) : steps.set(one.step, [one]);
  return html`
    <ul class="changes">
      ${[...steps].map(([step, all]) => {
        const [icon, tone] = SIGNS[all[0].what] || SIGNS.changed;
        return html`
          <li key=${step} data-tone=${tone}>
            <div class="row tight">
              <${Icon} name=${icon} />
              <b>${step ?? "Dag"}</b>
              <span class="dim">${all[0].what}</span>
            </div>
            ${all
              .filter((one) => one.field)
              .map(
                (one) => html`
                  <dl key=${one.field}>
                    <dt>${one.field}</dt>
                    <dd>
                      <del>${told(one.old)}</del>
                      <${Icon} name="arrow-right" class="small" />
                      <ins>${told(one.new)}</ins>
                    </dd>
                  </dl>
                `,
              )}
          </li>
        `;
      })}
    </ul>
  `;
}

const told = (value) =>
  value === null || value === undefined ? "none" : typeof value === "string" ? value : stringify(value);
