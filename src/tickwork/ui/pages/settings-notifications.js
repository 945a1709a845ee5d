// Notifications and the channels that they use.

import { html, useState } from "../vendor/core.js";
import { part, post, put, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/settings.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { ChannelForm, KINDS, placeOf } from "./settings-channel-form.js";
import { CASES, narrowed, NotificationForm } from "./settings-notification-form.js";
import { TestAnswer } from "./settings-notification-test.js";

const CODE = `app.notifications.put_channel("ops", "slack", url="\${secret.SLACK_URL}")
app.notifications.put("night", "failed", to="ops", dag="nightly")`;

const ACTIONS = html`<span class="hidden-label">Actions</span>`;

async function forget(what, name, text, refresh) {
  if (!(await ask({ title: TEXTS.deleteTitle(what, name), text, does: "Delete", isBad: true }))) return;
  await attempt(() => remove(`/${what}s/${part(name)}`).then(refresh), TEXTS.deletedNamed(what, name));
}

export default function Notify() {
  const told = useResource("/notifications", { live: onTopics("notifications"), every: 30 });
  const ways = useResource("/channels", { live: onTopics("notifications") });
  const [opened, open] = useState(/** @type {{kind: string, one?: any, jobs?: string[]} | null} */ (null));
  const problem = told.problem || ways.problem;
  if (problem && !(told.data && ways.data)) {
    return html`
      <${Trouble}
        problem=${problem}
        onRetry=${() => {
          told.refresh();
          ways.refresh();
        }}
      />
    `;
  }
  if (!told.data || !ways.data) return html`<${Loading} />`;
  const test = async (one) => {
    const sent = await attempt(() => post(`/notifications/${part(one.name)}/test`));
    if (sent) open({ kind: "test", one, jobs: sent.jobs });
  };
  const store = (path, source, what) => async (name, body) => {
    await put(`${path}/${part(name)}`, body);
    say(TEXTS.savedNamed(what, name));
    await source.refresh();
  };
  const close = () => open(null);
  return html`
    <${Told} items=${told.data.items} open=${open} test=${test} refresh=${told.refresh} />
    <${Ways} items=${ways.data.items} open=${open} refresh=${ways.refresh} />
    ${opened?.kind === "notification" && html`
      <${NotificationForm}
        one=${opened.one}
        channels=${ways.data.items}
        onClose=${close}
        onStore=${store("/notifications", told, "notification")}
      />
    `}
    ${opened?.kind === "channel" && html`
      <${ChannelForm} one=${opened.one} onClose=${close} onStore=${store("/channels", ways, "channel")} />
    `}
    ${opened?.kind === "test" && html`<${TestAnswer} name=${opened.one.name} jobs=${opened.jobs} onClose=${close} />`}
  `;
}

function Told({ items, open, test, refresh }) {
  const columns = [
    { id: "name", title: "Name", cell: (one) => html`<b>${one.name}</b>` },
    {
      id: "on",
      title: "Event",
      cell: (one) => html`
        ${CASES[one.on].title}
        ${one.after && html` <span class="dim">after ${one.after}</span>`}${" "}
        <span class="dim">${narrowed(one)}</span>
      `,
    },
    {
      id: "to",
      title: "Channels",
      from: /** @type {const} */ ("phone"),
      cell: (one) => html`<span class="row">${one.to.map((name) => html`<span class="tag">${name}</span>`)}</span>`,
    },
    { id: "window", title: "Grouped per", from: /** @type {const} */ ("tablet"), cell: (one) => one.window },
    {
      id: "last",
      title: "Last sent",
      from: /** @type {const} */ ("phone"),
      cell: (one) => html`
        <${When} at=${one.told_at} none="never" />
        ${one.waiting_count > 0 && html` <span class="dim">${many(one.waiting_count, "case")} pending</span>`}
      `,
    },
    {
      id: "do",
      title: ACTIONS,
      align: /** @type {const} */ ("right"),
      cell: (one) => html`
        <${Menu}
          icon="ellipsis"
          title="Actions for ${one.name}"
          class="icon-only"
          align="right"
          items=${[
            { label: "Send test", icon: "send", run: () => test(one) },
            { label: "Edit", icon: "pencil", run: () => open({ kind: "notification", one }) },
            {
              label: "Delete",
              icon: "trash-2",
              isBad: true,
              run: () => forget("notification", one.name, TEXTS.deleteNotificationText, refresh),
            },
          ]}
        />
      `,
    },
  ];
  const add =
    may("operate") && html`
      <button class="main" onClick=${() => open({ kind: "notification" })}>
        <${Icon} name="plus" />New notification
      </button>
    `;
  return html`
    <${Panel} title="Notifications" actions=${add}>
      ${items.length
        ? html`
            <${Table}
              label="Notifications"
              columns=${may("operate") ? columns : columns.slice(0, -1)}
              rows=${items}
              idOf=${(one) => one.name}
            />
          `
        : html`<${Empty} icon="bell" title="No notifications yet" code=${CODE}>${TEXTS.noNotificationsText}</${Empty}>`}
    </${Panel}>
  `;
}

function Ways({ items, open, refresh }) {
  const columns = [
    { id: "name", title: "Name", cell: (one) => html`<b>${one.name}</b>` },
    { id: "kind", title: "Kind", cell: (one) => KINDS[one.kind] },
    {
      id: "place",
      title: "Target",
      from: /** @type {const} */ ("phone"),
      cell: (one) => html`<span class="mono wrap-anywhere">${placeOf(one)}</span>`,
    },
    {
      id: "queue",
      title: "Queue",
      from: /** @type {const} */ ("tablet"),
      cell: (one) => html`<span class="tag">${one.queue || "default"}</span>`,
    },
    {
      id: "do",
      title: ACTIONS,
      align: /** @type {const} */ ("right"),
      cell: (one) => html`
        <${Menu}
          icon="ellipsis"
          title="Actions for ${one.name}"
          class="icon-only"
          align="right"
          items=${[
            { label: "Edit", icon: "pencil", run: () => open({ kind: "channel", one }) },
            {
              label: "Delete",
              icon: "trash-2",
              isBad: true,
              run: () => forget("channel", one.name, TEXTS.deleteChannelText, refresh),
            },
          ]}
        />
      `,
    },
  ];
  const add =
    may("admin") && html`
      <button onClick=${() => open({ kind: "channel" })}><${Icon} name="plus" />New channel</button>
    `;
  return html`
    <${Panel} title="Channels" actions=${add}>
      ${items.length
        ? html`
            <${Table}
              label="Channels"
              columns=${may("admin") ? columns : columns.slice(0, -1)}
              rows=${items}
              idOf=${(one) => one.name}
            />
          `
        : html`<p class="dim">${TEXTS.noChannelsText}</p>`}
    </${Panel}>
  `;
}
