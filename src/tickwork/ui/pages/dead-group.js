// The panel of one group of dead letters: the latest job with its error, and the actions on the group.

import { html } from "../vendor/core.js";
import { address, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { count, many } from "../lib/format.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { Dialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts } from "../parts/page-layout.js";
import { Traceback } from "../parts/traceback.js";
import { Tree } from "../parts/json-tree.js";
import { When } from "../parts/relative-time.js";

const LONGEST = 500; // maximum length of a filter

const SAME = { error: ["task", "error"], task: ["task"], queue: ["queue"] };

/** The filter for the jobs of a group. @param {any} group @returns {Record<string, string>} */
export const filterOf = (group) =>
  Object.fromEntries(SAME[group.by].filter((name) => group[name]).map((name) => [name, group[name].slice(0, LONGEST)]));

/** The same as a query for the jobs page. @param {any} group */
const queryOf = (group) =>
  ["is:dead", ...Object.entries(filterOf(group)).map(([name, value]) => word(name, value))].join(" ");

/** The same as command line options. @param {string} verb @param {any} group */
const commandOf = (verb, group) =>
  group.by === "error"
    ? undefined
    : [
        "tickwork dead",
        verb,
        ...Object.entries(filterOf(group)).map(([name, value]) => `--${name} ${quoted(value)}`),
      ].join(" ");

/** @param {{group: any, onClose: () => void, act: (action: "redrive" | "discard") => void}} props */
export function Group({ group, onClose, act }) {
  const { data: job, problem, refresh } = useResource(`/jobs/${part(group.newest_id)}`);
  const footer = html`
    <a
      class="button"
      download="dead-letters.jsonl"
      href=${address("/dead/export", filterOf(group)).href}
      title="JSON lines, up to 10,000"
    >
      <${Icon} name="download" />Export
    </a>
    <a class="button" href=${href("/jobs", { q: queryOf(group) })}>
      <${Icon} name="list" />View ${group.count === 1 ? "it" : `all ${count(group.count)}`}
    </a>
    ${may("operate") && html`
      <button onClick=${() => act("discard")}><${Icon} name="trash-2" />Discard…</button>
      <button class="main" onClick=${() => act("redrive")}><${Icon} name="rotate-ccw" />Redrive…</button>
    `}
  `;
  return html`
    <${Dialog} title=${many(group.count, "dead letter")} drawer onClose=${onClose} footer=${footer}>
      <${Facts}
        items=${[
          ["Task", html`<a class="link" href=${href("/jobs", { q: word("task", group.task) })}>${group.task}</a>`],
          ["Queue", html`<a class="link" href=${href("/jobs", { q: word("queue", group.queue) })}>${group.queue}</a>`],
          ["First", html`<${When} at=${group.oldest_at} />`],
          ["Last", html`<${When} at=${group.newest_at} />`],
        ]}
      />
      <div class="row spread">
        <h3>Latest</h3>
        <div class="row">
          <a class="link" href=${href(`/jobs/${part(group.newest_id)}`)}>Open job to rerun it with edited arguments</a>
          <${CopyAs}
            forms=${{
              curl: curl("POST", "/dead/redrive", { filter: filterOf(group) }),
              cli: commandOf("redrive", group),
            }}
          />
        </div>
      </div>
      ${problem && !job
        ? html`<${Trouble} problem=${problem} onRetry=${refresh} />`
        : !job
          ? html`<${Loading} />`
          : html`
              <${Traceback} text=${job.error || "No error message"} />
              <h3>Arguments</h3>
              <${Tree} value=${job.args} label="arguments" />
            `}
    </${Dialog}>
  `;
}
