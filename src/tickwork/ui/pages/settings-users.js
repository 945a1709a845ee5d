// Users: people who log in with a name and a password.

import { html, useState } from "../vendor/core.js";
import { part, patch, post, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { session } from "../lib/session.js";
import { ask, FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/notices.js";
import { Panel } from "../parts/page.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/when.js";
import { ROLES } from "./settings-scopes.js";

const CODE = "tickwork users add ada --role operator";

async function dismiss(user, refresh) {
  const text = `${user.name} is logged out at once and cannot log in again. What they did stays in the audit log.`;
  if (!(await ask({ title: `Remove the user ${user.name}?`, text, does: "Remove them", isBad: true }))) return;
  await attempt(() => remove(`/users/${part(user.name)}`).then(refresh), `${user.name} is no user any more.`);
}

const columns = (open, refresh) => [
  {
    id: "name",
    title: "Name",
    cell: (user) => html`
      <b>${user.name}</b>
      ${session.value.who === `user:${user.name}` && html` <span class="tag">you</span>`}
    `,
  },
  {
    id: "role",
    title: "Role",
    cell: (user) => html`
      <span class="tag">${user.role}</span>${" "}
      <span class="dim" data-from="tablet">${ROLES[user.role]}</span>
    `,
  },
  {
    id: "made",
    title: "Added",
    from: /** @type {const} */ ("phone"),
    cell: (user) => html`<${When} at=${user.created_at} />`,
  },
  {
    id: "changed",
    title: "Changed",
    from: /** @type {const} */ ("tablet"),
    cell: (user) => html`<${When} at=${user.changed_at} />`,
  },
  {
    id: "do",
    title: html`<span class="hidden-label">Actions</span>`,
    align: /** @type {const} */ ("right"),
    cell: (user) => html`
      <${Menu}
        icon="ellipsis"
        title="Do something with ${user.name}"
        class="icon-only"
        align="right"
        items=${[
          { label: "Another role", icon: "shield-check", run: () => open({ kind: "role", user }) },
          { label: "New password", icon: "key-round", run: () => open({ kind: "password", user }) },
          { label: "Remove", icon: "trash-2", isBad: true, run: () => dismiss(user, refresh) },
        ]}
      />
    `,
  },
];

export default function Users() {
  const { data, problem, isLoading, refresh } = useResource("/users");
  const [opened, open] = useState(/** @type {{kind: string, user?: any} | null} */ (null));
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const close = () => open(null);
  const add = async (values) => {
    await post("/users", values);
    say(`${values.name} may log in.`);
    await refresh();
  };
  const change = async (values) => {
    await patch(`/users/${part(opened.user.name)}`, values);
    say(
      values.role
        ? `${opened.user.name} is ${values.role} from the next request on.`
        : `${opened.user.name} logs in with the new password; sessions with the old one have ended.`,
    );
    await refresh();
  };
  return html`
    <${Panel}
      title="Users"
      actions=${html`
        <button class="main" onClick=${() => open({ kind: "new" })}><${Icon} name="plus" />New user</button>
      `}
    >
      ${data.items.length
        ? html`
            <${Table} label="Users" columns=${columns(open, refresh)} rows=${data.items} idOf=${(user) => user.name} />
          `
        : html`
            <${Empty} icon="users" title="No users yet" code=${CODE} language="bash">
              People log in with a name and a password; programs use keys.
            </${Empty}>
          `}
    </${Panel}>
    ${opened?.kind === "new" && html`
      <${FormDialog} title="New user" does="Add the user" onClose=${close} onSubmit=${add}>
        <label class="field">
          <span>Name</span>
          <input name="name" required autofocus autocomplete="off" maxlength="100" />
        </label>
        <${Role} chosen="viewer" />
        <${Password} />
      </${FormDialog}>
    `}
    ${opened?.kind === "role" && html`
      <${FormDialog} title="The role of ${opened.user.name}" does="Give this role" onClose=${close} onSubmit=${change}>
        <${Role} chosen=${opened.user.role} />
      </${FormDialog}>
    `}
    ${opened?.kind === "password" && html`
      <${FormDialog} title="A new password for ${opened.user.name}" does="Set it" onClose=${close} onSubmit=${change}>
        <p class="dim">Sessions of ${opened.user.name} end.</p>
        <${Password} />
      </${FormDialog}>
    `}
  `;
}

function Role({ chosen }) {
  return html`
    <fieldset class="field">
      <legend>Role</legend>
      ${Object.entries(ROLES).map(
        ([role, does]) => html`
          <label class="check" key=${role}>
            <input type="radio" name="role" value=${role} defaultChecked=${role === chosen} />
            <b>${role}</b>
            <span class="dim">${does}</span>
          </label>
        `,
      )}
    </fieldset>
  `;
}

function Password() {
  return html`
    <label class="field">
      <span>Password</span>
      <input name="password" type="password" required autocomplete="new-password" />
    </label>
  `;
}
