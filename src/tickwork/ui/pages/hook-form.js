// The form of a hook. An edit is refused if the hook was changed meanwhile.

import { html, useEffect, useState } from "../vendor/core.js";
import { parse, stringify } from "../lib/lossless-json.js";
import { call, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { href } from "../lib/router.js";
import { TEXTS } from "../texts/hooks.js";
import { FormDialog } from "../parts/dialog.js";
import { Loading, Notice } from "../parts/loading-and-errors.js";
import { say } from "../parts/toast.js";
import { secretName } from "./hook-test-command.js";

const STYLES = { github: "GitHub", stripe: "Stripe", generic: "Generic (X-Tickwork-Signature)" };
const ARGS = '{"id": "${body.id}"}';

/**
 * Convert the values of a form for the API. Throws if the arguments are no JSON object.
 * @param {Record<string, any>} values
 */
function specOf(values) {
  const events = (values.events || "")
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
  const { style, secret, key, window, description, kind, target } = values;
  const spec = {
    style,
    secret,
    key,
    window,
    description,
    [kind]: target,
    args: argsOf(values.args),
    events: events.length ? events : undefined,
  };
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined));
}

function argsOf(text) {
  if (!text?.trim()) return undefined;
  try {
    const value = parse(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // The error is shown below, for both.
  }
  throw new Error(TEXTS.hookArgumentsBad(ARGS));
}

/** @param {{name?: string, onClose: () => void, onStored: (hook: any) => void}} props */
export function HookForm({ name, onClose, onStored }) {
  const [old, setOld] = useState(
    /** @type {{spec: any, etag: string | null} | null} */ (name ? null : { spec: {}, etag: null }),
  );
  useEffect(() => {
    if (!name) return;
    call("GET", `/hooks/${part(name)}`).then(
      async (answer) => setOld({ spec: (await answer.json()).spec, etag: answer.headers.get("ETag") }),
      (problem) => {
        say(problem.message, { tone: "bad" });
        onClose();
      },
    );
  }, [name]);
  if (!old) return html`<${Loading} />`;
  const submit = async (values) => {
    const headers = name ? { "If-Match": old.etag } : { "If-None-Match": "*" };
    const answer = await call("PUT", `/hooks/${part(name || values.name)}`, { body: specOf(values), headers });
    const stored = await answer.json();
    say(TEXTS.hookSaved(stored.name));
    onStored(stored);
  };
  return html`
    <${FormDialog}
      title=${name ? `Edit hook ${name}` : "New hook"}
      does="Save"
      onClose=${onClose}
      onSubmit=${submit}
      wide
    >
      <${Fields} spec=${old.spec} isNew=${!name} />
    </${FormDialog}>
  `;
}

function Fields({ spec, isNew }) {
  const secrets = useResource("/secrets").data?.items.map((one) => one.name);
  const tasks = useResource("/tasks").data?.items || [];
  const dags = useResource("/dags").data?.items || [];
  const [kind, setKind] = useState(spec.dag ? "dag" : "task");
  const [secret, setSecret] = useState(secretName(spec.secret || ""));
  return html`
    <div class="fields">
      ${isNew && html`
        <label class="field">
          <span>Name</span>
          <input
            name="name"
            required
            autofocus
            autocomplete="off"
            pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*"
            placeholder="pushed"
          />
          <small>Last part of the URL.</small>
        </label>
      `}
      <label class="field">
        <span>Source</span>
        <select name="style">
          ${Object.entries(STYLES).map(
            ([id, title]) => html`<option key=${id} value=${id} selected=${id === spec.style}>${title}</option>`,
          )}
        </select>
        <small>How messages are signed.</small>
      </label>
      <label class="field">
        <span>Secret</span>
        <input
          name="secret"
          required
          autocomplete="off"
          list="hook-secrets"
          value=${secret}
          onInput=${(event) => setSecret(event.target.value)}
          placeholder="GITHUB_HOOK"
        />
        <small>Name of a secret.</small>
      </label>
    </div>
    <${Options} id="hook-secrets" values=${secrets || []} />
    ${secret && secrets && !secrets.includes(secretName(secret)) && html`
      <${Notice} tone="warn" icon="triangle-alert">
        The store has no secret with this name.${" "}
        <a class="link" href=${href("/settings", { part: "secrets" })}>Create it</a>, or set it in the environment of
        the server.
      </${Notice}>
    `}
    <div class="fields">
      <label class="field">
        <span>Starts</span>
        <select name="kind" value=${kind} onChange=${(event) => setKind(event.target.value)}>
          <option value="task">A job of a task</option>
          <option value="dag">A run of a dag</option>
        </select>
      </label>
      <label class="field">
        <span>${kind === "dag" ? "Dag" : "Task"}</span>
        <input
          name="target"
          required
          autocomplete="off"
          list="hook-targets"
          defaultValue=${spec.dag || spec.task || ""}
        />
      </label>
      <label class="field">
        <span>Event types</span>
        <input name="events" autocomplete="off" defaultValue=${(spec.events || []).join(", ")} placeholder="all" />
        <small>Separated by commas: push, release.</small>
      </label>
    </div>
    <${Options} id="hook-targets" values=${(kind === "dag" ? dags : tasks).map((one) => one.name)} />
    <label class="field">
      <span>Arguments (JSON)</span>
      <textarea
        name="args"
        rows="4"
        spellcheck=${false}
        placeholder=${ARGS}
        defaultValue=${spec.args ? stringify(spec.args, 2) : ""}
      ></textarea>
      <small>
        ${"${body.data.id}"} is a field of the message, ${"${event}"} its event type, ${"${headers.NAME}"} a header.
      </small>
    </label>
    <div class="fields">
      <label class="field">
        <span>Message id</span>
        <input name="key" autocomplete="off" defaultValue=${spec.key || ""} placeholder=${"${body.id}"} />
        <small>Default: the event id of Stripe, otherwise the signature.</small>
      </label>
      <label class="field">
        <span>Ignore repeats for</span>
        <input name="window" autocomplete="off" defaultValue=${spec.window || ""} placeholder="1d" />
        <small>From 10m to 30d.</small>
      </label>
    </div>
    <label class="field">
      <span>Description</span>
      <input name="description" autocomplete="off" defaultValue=${spec.description || ""} />
    </label>
  `;
}

const Options = ({ id, values }) => html`
  <datalist id=${id}>${values.map((value) => html`<option key=${value} value=${value}></option>`)}</datalist>
`;
