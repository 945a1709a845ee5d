// You: who you are to this server, what you may do, and how this browser shows it.

import { html } from "../vendor/core.js";
import { pageSize, theme, zone } from "../lib/prefs.js";
import { logOut, may, session } from "../lib/session.js";
import { Icon } from "../parts/icon.js";
import { Panel } from "../parts/page.js";
import { When } from "../parts/when.js";
import { SCOPES } from "./settings-scopes.js";

const NAMES = { user: "a user", key: "an API key", token: "the token of this server's start" };

/** "user:ada" as people say it. @param {string} who */
function introduced(who) {
  const [kind, ...name] = who.split(":");
  return name.length ? { name: name.join(":"), kind: NAMES[kind] || kind } : { name: who, kind: "" };
}

export default function You() {
  const { name, kind } = introduced(session.value.who);
  const scopes = Object.entries(SCOPES).filter(([scope]) => may(/** @type {any} */ (scope)));
  return html`
    <${Panel} title="You" actions=${html`<button onClick=${logOut}><${Icon} name="log-out" />Log out</button>`}>
      <div class="inner stack"><p class="you"><b>${name}</b> <span class="dim">${kind}</span></p>
        ${session.value.expires_at && html`<p class="dim">This session ends <${When} at=${session.value.expires_at} />, or after 12 hours without use.</p>`}</div>
    </${Panel}>
    <${Panel} title="What you may do"><ul class="scopes">${scopes.map(([scope, does]) => html`<li key=${scope}><${Icon} name="check" /><code>${scope}</code><span>${does}</span></li>`)}</ul></${Panel}>
    <${Panel} title="This browser"><div class="inner looks">
      <${Choice} label="Look" chosen=${theme.value} onChoose=${(value) => (theme.value = value)} options=${[["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]]} />
      <${Choice} label="Times" chosen=${zone.value} onChoose=${(value) => (zone.value = value)} options=${[["local", `Here (${Intl.DateTimeFormat().resolvedOptions().timeZone})`], ["utc", "UTC"]]} />
      <${Choice} label="Rows at a time" chosen=${pageSize.value} onChoose=${(value) => (pageSize.value = value)} options=${[25, 50, 100, 200].map((size) => [size, String(size)])} />
    </div></${Panel}>`;
}

function Choice({ label, options, chosen, onChoose }) {
  return html`<div class="row"><span class="look-name">${label}</span><div class="choice" role="group" aria-label=${label}>
    ${options.map(([value, name]) => html`<button key=${value} aria-pressed=${value === chosen} onClick=${() => onChoose(value)}>${name}</button>`)}</div></div>`;
}
