// A schedule to make or to edit. Its rule explains itself while it is typed.

import { html, useState } from "../vendor/core.js";
import { parse, stringify } from "../lib/json.js";
import { call, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { FormDialog } from "../parts/dialog.js";
import { Explained, KINDS, useExplained } from "../parts/cron.js";
import { Notice } from "../parts/notices.js";
import { say } from "../parts/toast.js";

const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") || [])];
const OWN = ["task", "dag", "args", "tz", "catchup", "overlap", "jitter", "description", ...Object.keys(KINDS)];
const CATCHUP = [
  ["", "as by default (the latest)"],
  ["all", "all that were missed"],
  ["latest", "only the latest one"],
  ["none", "none"],
];
const OVERLAP = [
  ["", "as by default (skip)"],
  ["allow", "start it all the same"],
  ["skip", "skip it"],
  ["queue", "let it wait"],
  ["cancel", "cancel the one that lives"],
];

const kindOf = (spec) => Object.keys(KINDS).find((kind) => spec[kind] !== undefined) || "cron";
const textOf = (spec) => [spec[kindOf(spec)] ?? ""].flat().join(", ");

/** A problem in the shape that forms show. @param {string} message */
const refuse = (message) => Object.assign(new Error(message), { errors: [] });

function readArgs(text) {
  if (!text) return {};
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw refuse(`The arguments are no JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw refuse('The arguments are a JSON object of names and values, such as {"to": "ada"}.');
  }
  return value;
}

/** @param {{one?: any, etag?: string | null, onClose: () => void, onDone: (name: string) => void}} props */
export function ScheduleForm({ one, etag, onClose, onDone }) {
  const spec = one?.spec || {};
  const isComposed = Boolean(spec.any_of || spec.all_of || spec.shell || spec.http);
  const [name, setName] = useState(one?.name || "");
  const [kind, setKind] = useState(kindOf(spec));
  const [text, setText] = useState(textOf(spec));
  const [zone, setZone] = useState(spec.tz || "");
  const tasks = useResource("/tasks", { query: { limit: 200 } });
  const told = useExplained({ kind, text, zone: zone || "UTC", name });

  const submit = async (values) => {
    const kept = Object.fromEntries(Object.entries(spec).filter(([field]) => !OWN.includes(field)));
    const rule = isComposed
      ? {}
      : { [kind]: kind === "at" && text.includes(",") ? text.split(/\s*,\s*/) : text.trim() };
    const args = readArgs(values.args);
    const said = {
      catchup: values.catchup,
      overlap: values.overlap,
      jitter: values.jitter,
      description: values.description,
      tz: zone,
    };
    const given = Object.fromEntries(Object.entries(said).filter(([, value]) => value));
    const target = isComposed && !spec.task && !spec.dag ? {} : { [spec.dag ? "dag" : "task"]: values.target };
    const body = { ...kept, ...target, ...rule, ...given, ...(Object.keys(args).length ? { args } : {}) };
    await call("PUT", `/schedules/${part(one?.name || name)}`, {
      body,
      headers: one ? (etag ? { "If-Match": etag } : {}) : { "If-None-Match": "*" },
    }).catch(explained);
    say(one ? `${one.name} is changed. That holds from now on.` : `${name} is stored.`);
    onDone(one?.name || name);
  };
  const explained = (problem) => {
    if (problem.status === 412) {
      throw refuse(
        one
          ? "Another user has changed it since you opened it. Close this form and edit the new version."
          : `There is a schedule ${name} already. Open it, or choose another name.`,
      );
    }
    throw problem;
  };
  const field = KINDS[kind];
  return html`
    <${FormDialog}
      title=${one ? `Edit ${one.name}` : "New schedule"}
      does=${one ? "Store it" : "Make it"}
      wide
      onClose=${onClose}
      onSubmit=${submit}
    >
      ${one?.owner === "code" && html`
        <${Notice} tone="warn" icon="triangle-alert">
          Code declares this schedule: it comes back as the code says when a worker starts. Change the code as well.
        </${Notice}>
      `}
      ${one?.owner === "file" && html`
        <${Notice} tone="warn" icon="triangle-alert">
          The file ${one.source} declares this schedule: the next <code>tickwork apply</code> has it as the file says.
        </${Notice}>
      `}
      ${!one && html`
        <div class="fields">
          <label class="field">
            <span>Name</span>
            <input
              required
              autofocus
              autocomplete="off"
              value=${name}
              onInput=${(event) => setName(event.target.value)}
              placeholder="nightly-report"
            />
          </label>
        </div>
      `}
      ${!(isComposed && !spec.task && !spec.dag) && html`
        <label class="field">
          <span>Starts the task or dag</span>
          <input
            name="target"
            required
            list="known-tasks"
            autocomplete="off"
            defaultValue=${spec.task || spec.dag || ""}
            value=${undefined}
            placeholder="report"
          />
        </label>
        <datalist id="known-tasks">
          ${(tasks.data?.items || []).map((task) => html`<option value=${task.name} />`)}
        </datalist>
      `}
      <label class="field">
        <span>Arguments (JSON)</span>
        <textarea
          name="args"
          rows="3"
          spellcheck=${false}
          defaultValue=${spec.args ? stringify(spec.args, 2) : ""}
        ></textarea>
      </label>
      ${isComposed && (spec.any_of || spec.all_of)
        ? html`
            <${Notice}>
              Its rule is made of several; edit it in code or by <code>tickwork apply</code>. The rest can be changed
              here.
            </${Notice}>
          `
        : html`
            <fieldset class="rule-fields">
              <div class="choice" role="group" aria-label="Kind of rule">
                ${Object.entries(KINDS).map(
                  ([id, about]) => html`
                    <button type="button" key=${id} aria-pressed=${id === kind} onClick=${() => setKind(id)}>
                      ${about.label}
                    </button>
                  `,
                )}
              </div>
              <div class="fields">
                <label class="field">
                  <span>${field.label}</span>
                  <input
                    class="mono"
                    required
                    value=${text}
                    onInput=${(event) => setText(event.target.value)}
                    placeholder=${field.hint}
                    autocomplete="off"
                    spellcheck=${false}
                  />
                  <small>${field.help}</small>
                </label>
                <label class="field">
                  <span>Zone</span>
                  <input
                    list="zones"
                    value=${zone}
                    onInput=${(event) => setZone(event.target.value)}
                    placeholder="UTC"
                    autocomplete="off"
                  />
                  <small>whose clock the rule means</small>
                </label>
              </div>
              <datalist id="zones">${ZONES.map((one) => html`<option value=${one} />`)}</datalist>
              <${Explained} told=${told} text=${text} zone=${zone || "UTC"} />
            </fieldset>
          `}
      <div class="fields">
        <label class="field">
          <span>When occurrences were missed</span>
          <select name="catchup">
            ${CATCHUP.map(
              ([id, label]) => html`<option value=${id} selected=${id === (spec.catchup || "")}>${label}</option>`,
            )}
          </select>
        </label>
        <label class="field">
          <span>When the last one still lives</span>
          <select name="overlap">
            ${OVERLAP.map(
              ([id, label]) => html`<option value=${id} selected=${id === (spec.overlap || "")}>${label}</option>`,
            )}
          </select>
        </label>
        <label class="field">
          <span>Jitter</span>
          <input name="jitter" defaultValue=${spec.jitter ?? ""} placeholder="none; or 30s" />
        </label>
      </div>
      <label class="field">
        <span>Description</span>
        <input name="description" defaultValue=${spec.description || ""} />
      </label>
    </${FormDialog}>
  `;
}

/** A schedule with its ETag, for an edit. @param {string} name */
export async function forEdit(name) {
  const answer = await call("GET", `/schedules/${part(name)}`);
  return { one: await answer.json(), etag: answer.headers.get("etag") };
}
