// The dialog that reruns a job with other arguments, validated while the user types.

import { html, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { parse, stringify } from "../lib/lossless-json.js";
import { go } from "../lib/router.js";
import { TEXTS } from "../texts/jobs.js";
import { FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { say } from "../parts/toast.js";

/** The error in a text of arguments with its position, or null. @param {string} text */
function flawOf(text) {
  try {
    const value = parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? null : TEXTS.argumentsNotObject;
  } catch (error) {
    const at = /position (\d+)/.exec(error.message)?.[1];
    const before = text.slice(0, Number(at ?? text.length)).split("\n");
    return TEXTS.jsonErrorAt(before.length, before.at(-1).length + 1);
  }
}

/** The schema of a task's arguments, with references resolved. @param {any} schema */
const resolved = (schema) => (schema?.$ref ? schema.$defs?.[schema.$ref.split("/").at(-1)] : schema);

/** Arguments that the schema requires or does not know. @param {any} schema @param {any} args */
function misfits(schema, args) {
  const known = schema?.properties;
  if (!known) return [];
  const missing = (schema.required || []).filter((name) => !(name in args)).map((name) => TEXTS.argumentMissing(name));
  const strange = schema.additionalProperties === false ? Object.keys(args).filter((name) => !(name in known)) : [];
  return [...missing, ...strange.map((name) => TEXTS.argumentUnknown(name))];
}

function Parameters({ schema }) {
  const known = Object.entries(schema?.properties || {});
  if (!known.length) return null;
  const kind = (one) =>
    one.type ||
    one.anyOf
      ?.map((other) => other.type)
      .filter(Boolean)
      .join(" or ") ||
    "anything";
  return html`
    <p class="small dim">
      Arguments:${" "}
      ${known.map(
        ([name, one], at) => html`
          ${at > 0 && ", "}<code>${name}</code> (${kind(one)}${schema.required?.includes(name) ? "" : ", optional"})
        `,
      )}
      .
    </p>
  `;
}

/** @param {{job: any, onClose: () => void}} props */
export function Rerun({ job, onClose }) {
  const [text, setText] = useState(stringify(job.args ?? {}, 2));
  const task = useResource(`/tasks/${part(job.task)}`);
  const schema = resolved(task.data?.schema);
  const flaw = flawOf(text);
  const odd = flaw ? [] : misfits(schema, parse(text));
  const submit = async ({ queue, delay, priority }) => {
    if (flaw) throw new Error(TEXTS.nothingEnqueued(flaw));
    const made = await post(`/jobs/${part(job.id)}/rerun`, { args: parse(text), queue, priority, delay });
    say(TEXTS.enqueued(made.task));
    go(`/jobs/${part(made.id)}`);
  };
  return html`
    <${FormDialog} title="Rerun ${job.task}" does="Enqueue" wide onSubmit=${submit} onClose=${onClose}>
      <p>${TEXTS.rerunText}</p>
      <label class="field">
        <span>Arguments (JSON)</span>
        <textarea
          class="editor"
          rows=${Math.min(20, Math.max(6, text.split("\n").length + 1))}
          spellcheck=${false}
          autofocus
          value=${text}
          aria-invalid=${Boolean(flaw)}
          onInput=${(event) => setText(event.target.value)}
        ></textarea>
      </label>
      <p class="flaw" role="status" data-tone=${flaw ? "bad" : odd.length ? "warn" : "good"}>
        <${Icon} name=${flaw ? "circle-x" : odd.length ? "triangle-alert" : "circle-check"} />
        ${flaw || odd.join(" ") || "Valid."}
      </p>
      <${Parameters} schema=${schema} />
      <div class="fields">
        <label class="field">
          <span>Queue</span>
          <input name="queue" placeholder=${job.queue} autocomplete="off" />
        </label>
        <label class="field">
          <span>Priority</span>
          <input name="priority" type="number" min="0" max="9" placeholder=${job.priority} />
        </label>
        <label class="field"><span>Delay</span><input name="delay" placeholder="now" autocomplete="off" /></label>
      </div>
    </${FormDialog}>
  `;
}
