// The account page: the current user, permissions and preferences of this browser.

import { html, useState } from "../vendor/core.js";
import { post } from "../lib/api.js";
import { pageSize, theme, zone } from "../lib/browser-prefs.js";
import { logOut, may, session } from "../lib/session.js";
import { TEXTS } from "../texts/settings.js";
import { FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Panel } from "../parts/page-layout.js";
import { say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { SCOPES } from "./settings-scopes.js";
import { Sessions } from "./settings-sessions.js";

const NAMES = { user: "a user", key: "an API key", token: "the start token of this server" };

/** "user:ada" as a sentence. @param {string} who */
function introduced(who) {
  const [kind, ...name] = who.split(":");
  return name.length ? { name: name.join(":"), kind: NAMES[kind] || kind } : { name: who, kind: "" };
}

export default function You() {
  const { name, kind } = introduced(session.value.who);
  const isUser = session.value.who.startsWith("user:");
  const [isChanging, setChanging] = useState(false);
  const scopes = Object.entries(SCOPES).filter(([scope]) => may(/** @type {any} */ (scope)));
  return html`
    <${Panel}
      title="You"
      actions=${html`
        <span class="row">
          ${isUser && html`
            <button onClick=${() => setChanging(true)}><${Icon} name="key-round" />Change password</button>
          `}
          <button onClick=${logOut}><${Icon} name="log-out" />Log out</button>
        </span>
      `}
    >
      <div class="inner stack">
        <p class="you"><b>${name}</b> <span class="dim">${kind}</span></p>
        ${session.value.expires_at && html`
          <p class="dim">
            This session ends <${When} at=${session.value.expires_at} />, or after 12 hours without use.
          </p>
        `}
      </div>
    </${Panel}>
    <${Sessions} />
    <${Panel} title="Permissions">
      <ul class="scopes">
        ${scopes.map(
          ([scope, does]) => html`
            <li key=${scope}><${Icon} name="check" /><code>${scope}</code><span>${does}</span></li>
          `,
        )}
      </ul>
    </${Panel}>
    <${Panel} title="This browser">
      <div class="inner looks">
        <${Choice}
          label="Theme"
          chosen=${theme.value}
          onChoose=${(value) => (theme.value = value)}
          options=${[
            ["auto", "System"],
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
        />
        <${Choice}
          label="Times"
          chosen=${zone.value}
          onChoose=${(value) => (zone.value = value)}
          options=${[
            ["local", `Local (${Intl.DateTimeFormat().resolvedOptions().timeZone})`],
            ["utc", "UTC"],
          ]}
        />
        <${Choice}
          label="Rows per page"
          chosen=${pageSize.value}
          onChoose=${(value) => (pageSize.value = value)}
          options=${[25, 50, 100, 200].map((size) => [size, String(size)])}
        />
      </div>
    </${Panel}>
    ${isChanging && html`<${Password} onClose=${() => setChanging(false)} />`}
  `;
}

function Password({ onClose }) {
  const change = async ({ old, password }) => {
    session.value = await post("/session/password", { old, new: password });
    say(TEXTS.passwordChanged);
  };
  return html`
    <${FormDialog} title="Change password" does="Save" onClose=${onClose} onSubmit=${change}>
      <p class="dim">All your other sessions end.</p>
      <input type="hidden" autocomplete="username" value=${introduced(session.value.who).name} />
      <label class="field">
        <span>Current password</span>
        <input name="old" type="password" required autofocus autocomplete="current-password" />
      </label>
      <label class="field">
        <span>New password</span>
        <input name="password" type="password" required minlength="8" maxlength="1024" autocomplete="new-password" />
        <small>At least 8 characters.</small>
      </label>
    </${FormDialog}>
  `;
}

function Choice({ label, options, chosen, onChoose }) {
  return html`
    <div class="row">
      <span class="look-name">${label}</span>
      <div class="choice" role="group" aria-label=${label}>
        ${options.map(
          ([value, name]) => html`
            <button key=${value} aria-pressed=${value === chosen} onClick=${() => onChoose(value)}>${name}</button>
          `,
        )}
      </div>
    </div>
  `;
}
