// The form of a channel: webhook, Slack or mail.

import { html, useState } from "../vendor/core.js";
import { TEXTS } from "../texts/settings.js";
import { FormDialog } from "../parts/dialog.js";

export const KINDS = { slack: "Slack or compatible", webhook: "Webhook", smtp: "Mail" };

/** The target of a channel. @param {any} one */
export const placeOf = (one) => (one.kind === "smtp" ? `${one.to.join(", ")} through ${one.host}` : one.url);

const FIELDS = {
  slack: ["url"],
  webhook: ["url", "secret"],
  smtp: ["host", "port", "tls", "sender", "user", "password"],
};

/** @param {{one?: any, onClose: () => void, onStore: (name: string, body: any) => Promise<void>}} props */
export function ChannelForm({ one, onClose, onStore }) {
  const [kind, setKind] = useState(one?.kind || "slack");
  const given = (name) => (one?.kind === kind ? one[name] || "" : "");
  const submit = (values) => {
    const said = Object.fromEntries([...FIELDS[kind], "queue"].map((name) => [name, values[name]]));
    const to = kind === "smtp" ? (values.to || "").split(/[\s,]+/).filter(Boolean) : undefined;
    return onStore(one?.name || values.name, { kind, to, ...said });
  };
  return html`
    <${FormDialog}
      title=${one ? `Edit channel ${one.name}` : "New channel"}
      does="Save"
      onClose=${onClose}
      onSubmit=${submit}
    >
      ${!one && html`
        <label class="field">
          <span>Name</span>
          <input name="name" required autofocus autocomplete="off" maxlength="100" placeholder="ops" />
        </label>
      `}
      <label class="field">
        <span>Kind</span>
        <select value=${kind} onChange=${(event) => setKind(event.target.value)}>
          ${Object.entries(KINDS).map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}
        </select>
      </label>
      ${kind === "smtp"
        ? html`<${Mail} given=${given} />`
        : html`
            <${Field}
              name="url"
              label="URL"
              given=${given}
              required
              placeholder="\${secret.SLACK_URL}"
              hint=${TEXTS.channelUrl}
            />
          `}
      ${kind === "webhook" && html`
        <${Field}
          name="secret"
          label="Signing secret"
          given=${given}
          placeholder="\${secret.NAME}"
          hint=${TEXTS.channelSecret}
        />
      `}
      <${Field} name="queue" label="Queue" given=${given} placeholder="default" hint=${TEXTS.channelQueue} />
    </${FormDialog}>
  `;
}

function Mail({ given }) {
  return html`
    <div class="fields">
      <${Field} name="host" label="Server" given=${given} required placeholder="mx.example.org" />
      <${Field} name="port" label="Port" given=${given} type="number" placeholder="587" />
      <label class="field">
        <span>Encryption</span>
        <select name="tls" defaultValue=${given("tls") || "starttls"}>
          ${["starttls", "tls", "none"].map(
            (tls) => html`
              <option key=${tls} value=${tls} selected=${tls === (given("tls") || "starttls")}>${tls}</option>
            `,
          )}
        </select>
      </label>
    </div>
    <${Field} name="sender" label="From" given=${given} required placeholder="jobs@example.org" />
    <${Field}
      name="to"
      label="To"
      given=${(name) => [given(name)].flat().join(", ")}
      required
      placeholder="ada@example.org, bob@example.org"
    />
    <div class="fields">
      <${Field} name="user" label="User" given=${given} />
      <${Field}
        name="password"
        label="Password"
        given=${given}
        placeholder="\${secret.NAME}"
        hint="A reference to a secret."
      />
    </div>
  `;
}

function Field({ name, label, given, hint, ...rest }) {
  return html`
    <label class="field">
      <span>${label}</span>
      <input name=${name} defaultValue=${given(name)} autocomplete="off" ...${rest} />
      ${hint && html`<small>${hint}</small>`}
    </label>
  `;
}
