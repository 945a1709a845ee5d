// The form of a schedule.

import { html, useState } from "../vendor/core.js";
import { parse, stringify } from "../lib/lossless-json.js";
import { call, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { TEXTS } from "../texts/schedules.js";
import { FormDialog } from "../parts/dialog.js";
import { Explained, KINDS, useExplained } from "../parts/rule-input.js";
import { Notice } from "../parts/loading-and-errors.js";
import { say } from "../parts/toast.js";

const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") || [])];
const OWN = ["task", "dag", "args", "tz", "catchup", "overlap", "jitter", "description", ...Object.keys(KINDS)];
const CATCHUP = [
  ["", "default (latest)"],
  ["all", "all missed occurrences"],
  ["latest", "latest missed occurrence"],
  ["none", "none"],
];
const OVERLAP = [
  ["", "default (skip)"],
  ["allow", "start anyway"],
  ["skip", "skip"],
  ["queue", "queue"],
  ["cancel", "cancel the active run"],
];

const kindOf = (spec) => Object.keys(KINDS).find((kind) => spec[kind] !== undefined) || "cron";
const textOf = (spec) => [spec[kindOf(spec)] ?? ""].flat().join(", ");

/** An error in the format that forms display. @param {string} message */
const refuse = (message) => Object.assign(new Error(message), { errors: [] });

function readArgs(text) {
  if (!text) return {};
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw refuse(TEXTS.argumentsNotJson(error.message));
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw refuse(TEXTS.argumentsNotObject);
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
    say(one ? TEXTS.scheduleChanged(one.name) : TEXTS.scheduleCreated(name));
    onDone(one?.name || name);
  };
  const explained = (problem) => {
    if (problem.status === 412) {
      throw refuse(one ? TEXTS.scheduleConflict : TEXTS.scheduleExists(name));
    }
    throw problem;
  };
  const field = KINDS[kind];
  return html`
    <${FormDialog}
      title=${one ? `Edit ${one.name}` : "New schedule"}
      does=${one ? "Save" : "Create"}
      wide
      onClose=${onClose}
      onSubmit=${submit}
    >
      ${one?.owner === "code" && html`<${Notice} tone="warn" icon="triangle-alert">${TEXTS.declaredInCode}</${Notice}>`}
      ${one?.owner === "file" && html`
        <${Notice} tone="warn" icon="triangle-alert">
          Declared in file ${one.source}: the next <code>tickwork apply</code> restores the declared values.
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
          <span>Task or dag</span>
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
              A composite rule; edit it in code or with <code>tickwork apply</code>. Other fields can be changed here.
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
                  <small>time zone of the rule</small>
                </label>
              </div>
              <datalist id="zones">${ZONES.map((one) => html`<option value=${one} />`)}</datalist>
              <${Explained} told=${told} text=${text} zone=${zone || "UTC"} />
            </fieldset>
          `}
      <div class="fields">
        <label class="field">
          <span>Catch-up</span>
          <select name="catchup">
            ${CATCHUP.map(
              ([id, label]) => html`<option value=${id} selected=${id === (spec.catchup || "")}>${label}</option>`,
            )}
          </select>
        </label>
        <label class="field">
          <span>Overlap</span>
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
