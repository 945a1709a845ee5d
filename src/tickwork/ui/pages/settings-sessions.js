// Sessions of the user, or of all users for admins, and a button to end each.

import { html, useState } from "../vendor/core.js";
import { part, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/settings.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";

const BROWSERS = {
  Edg: "Edge",
  OPR: "Opera",
  Firefox: "Firefox",
  Chrome: "Chrome",
  HeadlessChrome: "Chrome",
  Safari: "Safari",
};
const SYSTEMS = {
  iPhone: "iPhone",
  iPad: "iPad",
  Android: "Android",
  Windows: "Windows",
  "Mac OS X": "macOS",
  Linux: "Linux",
};

/** Browser and operating system from a User-Agent. @param {string} agent */
function browserOf(agent) {
  const known = (names, mark) => Object.keys(names).find((name) => agent.includes(name + mark));
  const [browser, system] = [known(BROWSERS, "/"), known(SYSTEMS, "")];
  return browser ? `${BROWSERS[browser]}${system ? ` on ${SYSTEMS[system]}` : ""}` : agent.slice(0, 40) || "unknown";
}

async function end(one, refresh) {
  const text = TEXTS.endSessionText(one.address || "an unknown address");
  if (!(await ask({ title: TEXTS.endSessionTitle(one.who), text, does: "End session", isBad: true }))) return;
  await attempt(() => remove(`/sessions/${part(one.id)}`).then(refresh), "Session ended.");
}

const columns = (refresh, isOfAll) => [
  ...(isOfAll ? [{ id: "who", title: "User", cell: (one) => html`<b class="clip">${one.who}</b>` }] : []),
  {
    id: "address",
    title: "From",
    cell: (one) => html`
      <span class="num wrap-anywhere">${one.address || "unknown"}</span>
      ${one.is_this && html` <span class="tag">this session</span>`}
    `,
  },
  {
    id: "agent",
    title: "Browser",
    from: /** @type {const} */ ("tablet"),
    cell: (one) => html`<span class="dim" title=${one.agent}>${browserOf(one.agent)}</span>`,
  },
  {
    id: "began",
    title: "Started",
    from: /** @type {const} */ ("phone"),
    cell: (one) => html`<${When} at=${one.created_at} />`,
  },
  { id: "used", title: "Last used", cell: (one) => html`<${When} at=${one.used_at} />` },
  {
    id: "do",
    title: html`<span class="hidden-label">Actions</span>`,
    align: /** @type {const} */ ("right"),
    cell: (one) =>
      !one.is_this && html`
        <button
          class="bare"
          aria-label="End session from ${one.address || "an unknown address"}"
          onClick=${() => end(one, refresh)}
        >
          End
        </button>
      `,
  },
];

export function Sessions() {
  const [isOfAll, setOfAll] = useState(false);
  const { data, problem, isLoading, refresh } = useResource("/sessions", { query: isOfAll ? { all: true } : {} });
  const actions =
    may("admin") && html`
      <button class="bare" aria-pressed=${isOfAll} onClick=${() => setOfAll(!isOfAll)}>
        <${Icon} name="users" />
        ${isOfAll ? "My sessions" : "All users"}
      </button>
    `;
  return html`
    <${Panel} title="Sessions" actions=${actions}>
      ${isLoading
        ? html`<${Loading} />`
        : problem && !data
          ? html`<${Trouble} problem=${problem} onRetry=${refresh} />`
          : html`<${Found} items=${data.items} refresh=${refresh} isOfAll=${isOfAll} />`}
    </${Panel}>
  `;
}

function Found({ items, refresh, isOfAll }) {
  if (!items.length) {
    return html`<${Empty} icon="monitor" title="No sessions">${TEXTS.noSessionsText}</${Empty}>`;
  }
  return html`<${Table} label="Sessions" columns=${columns(refresh, isOfAll)} rows=${items} idOf=${(one) => one.id} />`;
}
