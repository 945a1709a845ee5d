// Users who log in with a name and a password.

import { html, useState } from "../vendor/core.js";
import { part, patch, post, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { session } from "../lib/session.js";
import { TEXTS } from "../texts/settings.js";
import { ask, FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { ROLES } from "./settings-scopes.js";

const CODE = "tickwork users add ada --role operator";

async function dismiss(user, refresh) {
  const text = TEXTS.removeUserText(user.name);
  if (!(await ask({ title: TEXTS.removeUserTitle(user.name), text, does: "Remove", isBad: true }))) return;
  await attempt(() => remove(`/users/${part(user.name)}`).then(refresh), TEXTS.userRemoved(user.name));
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
        title="Actions for ${user.name}"
        class="icon-only"
        align="right"
        items=${[
          { label: "Change role", icon: "shield-check", run: () => open({ kind: "role", user }) },
          { label: "Change password", icon: "key-round", run: () => open({ kind: "password", user }) },
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
    say(TEXTS.userAdded(values.name));
    await refresh();
  };
  const change = async (values) => {
    await patch(`/users/${part(opened.user.name)}`, values);
    say(values.role ? TEXTS.roleChanged(opened.user.name, values.role) : TEXTS.passwordSet(opened.user.name));
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
            <${Empty} icon="users" title="No users yet" code=${CODE} language="bash">${TEXTS.noUsersText}</${Empty}>
          `}
    </${Panel}>
    ${opened?.kind === "new" && html`
      <${FormDialog} title="New user" does="Add user" onClose=${close} onSubmit=${add}>
        <label class="field">
          <span>Name</span>
          <input name="name" required autofocus autocomplete="off" maxlength="100" />
        </label>
        <${Role} chosen="viewer" />
        <${Password} />
      </${FormDialog}>
    `}
    ${opened?.kind === "role" && html`
      <${FormDialog} title="Role of ${opened.user.name}" does="Save" onClose=${close} onSubmit=${change}>
        <${Role} chosen=${opened.user.role} />
      </${FormDialog}>
    `}
    ${opened?.kind === "password" && html`
      <${FormDialog} title="New password for ${opened.user.name}" does="Save" onClose=${close} onSubmit=${change}>
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
