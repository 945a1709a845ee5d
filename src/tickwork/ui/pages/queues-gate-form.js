// The form for a new gate, with a preview of its effect in a sentence.

import { html, useEffect, useState } from "../vendor/core.js";
import { get, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { atLeast } from "../lib/format.js";
import { TEXTS } from "../texts/queues.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { say } from "../parts/toast.js";

export const SELECTORS = ["task", "queue", "tenant", "collection", "label"];

/** The kinds of gates: title, summary, and effect as a sentence about the jobs. */
export const KINDS = {
  pause: {
    does: "Pause",
    button: "Pause",
    icon: "circle-pause",
    tone: "warn",
    short: TEXTS.pauseShort,
    said: TEXTS.pauseEffect,
  },
  slow: {
    does: "Slow down",
    button: "Slow down",
    icon: "snail",
    tone: "wait",
    short: TEXTS.slowShort,
    said: (gate) => TEXTS.slowEffect(gate.rate || "a rate"),
  },
  divert: {
    does: "Divert",
    button: "Divert",
    icon: "git-branch",
    tone: "run",
    short: TEXTS.divertShort,
    said: (gate) => TEXTS.divertEffect(gate.to || "…"),
  },
  drop: {
    does: "Drop",
    button: "Drop",
    icon: "circle-minus",
    tone: "bad",
    short: TEXTS.dropShort,
    said: TEXTS.dropEffect,
  },
};

const ENDS = [
  ["", "until removed"],
  ["15m", "for 15 minutes"],
  ["1h", "for an hour"],
  ["4h", "for 4 hours"],
  ["1d", "for a day"],
  ["other", "until …"],
];
const LOOK_MS = 300;

/** @param {"pause"|"slow"|"divert"|"drop"|"resume"} kind @param {Record<string, any>} body */
export const asCommand = (kind, body) =>
  ["tickwork gates", kind, ...Object.entries(body).map(([name, value]) => `--${name} ${quoted(String(value))}`)].join(
    " ",
  );
/** @param {"pause"|"slow"|"divert"|"drop"|"resume"} kind @param {Record<string, any>} body */
export const asPython = (kind, body) =>
  `app.${kind}(${Object.entries(body)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(", ")})`;

/** @param {any} values */
function bodyOf(values) {
  const until = values.ends === "other" ? values.until : values.ends;
  const said = {
    ...Object.fromEntries(SELECTORS.map((name) => [name, values[name]])),
    rate: values.kind === "slow" ? values.rate : "",
    to: values.kind === "divert" ? values.to : "",
    until,
    reason: values.reason,
  };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value));
}

/** @param {{given: any, onClose: () => void, onDone: () => void}} props */
export function GateDialog({ given, onClose, onDone }) {
  const [values, setValues] = useState(/** @type {any} */ ({ kind: "pause", ends: "", ...given }));
  const queues = useResource("/queues").data?.items || [];
  const tasks = useResource("/tasks").data?.items || [];
  const body = bodyOf(values);
  const hear = (event) =>
    event.target.name && setValues((now) => ({ ...now, [event.target.name]: event.target.value }));
  const submit = async () => {
    const gate = await post(`/gates/${values.kind}`, body);
    say(TEXTS.gateCreated(gate.name));
    onDone();
  };
  const kind = KINDS[values.kind];
  return html`
    <${FormDialog}
      title=${given.queue ? `${kind.does} queue ${given.queue}` : "New gate"}
      does=${kind.button}
      isBad=${values.kind === "drop"}
      onClose=${onClose}
      onSubmit=${submit}
    >
      <div class="stack gate-form" onInput=${hear}>
        <fieldset class="kinds">
          <legend class="hidden-label">Action</legend>
          ${Object.entries(KINDS).map(
            ([id, one]) => html`
              <label key=${id} class="kind" data-tone=${one.tone}>
                <input type="radio" name="kind" value=${id} checked=${values.kind === id} />
                <span><b>${one.does}</b><small>${one.short}</small></span>
              </label>
            `,
          )}
        </fieldset>
        <fieldset class="fields">
          <legend>Jobs (all fields must match)</legend>
          ${SELECTORS.map(
            (name) => html`
              <label key=${name} class="field">
                <span>${name[0].toUpperCase() + name.slice(1)}</span>
                <input
                  name=${name}
                  value=${values[name] || ""}
                  list=${name === "task" || name === "queue" ? `gate-${name}s` : undefined}
                  autocomplete="off"
                  maxlength="500"
                />
              </label>
            `,
          )}
          ${values.kind === "slow" && html`
            <label class="field">
              <span>Rate</span>
              <input name="rate" required placeholder="5/s, 100/15m" value=${values.rate || ""} autocomplete="off" />
            </label>
          `}
          ${values.kind === "divert" && html`
            <label class="field">
              <span>Target queue</span>
              <input name="to" required value=${values.to || ""} list="gate-queues" autocomplete="off" />
            </label>
          `}
        </fieldset>
        <div class="fields">
          <label class="field">
            <span>Duration</span>
            <select name="ends">
              ${ENDS.map(([id, label]) => html`<option value=${id} selected=${values.ends === id}>${label}</option>`)}
            </select>
          </label>
          ${values.ends === "other" && html`
            <label class="field">
              <span>Duration or time</span>
              <input name="until" required placeholder="90m or 2026-11-01T12:00+01:00" value=${values.until || ""} />
            </label>
          `}
        </div>
        <label class="field">
          <span>Reason (shown with held jobs)</span>
          <input
            name="reason"
            maxlength="500"
            value=${values.reason || ""}
            placeholder="the provider is down"
            autocomplete="off"
          />
        </label>
        <datalist id="gate-tasks">${tasks.map((one) => html`<option value=${one.name} />`)}</datalist>
        <datalist id="gate-queues">${queues.map((one) => html`<option value=${one.name} />`)}</datalist>
      </div>
      <${Preview} kind=${values.kind} body=${body} />
    </${FormDialog}>
  `;
}

/** A preview of the gate: its effect in a sentence, and the number of waiting jobs that match. */
function Preview({ kind, body }) {
  const selects = Object.entries(body).filter(([name]) => SELECTORS.includes(name));
  const counts = useCounts(Object.fromEntries(selects));
  const who = selects.length
    ? `Jobs ${selects.map(([name, value]) => `of ${name} ${value}`).join(" and ")}`
    : "Select jobs: they";
  const said = KINDS[kind].said;
  return html`
    <div class="notice" data-tone=${KINDS[kind].tone} role="status">
      <${Icon} name=${KINDS[kind].icon} />
      <div class="stack">
        <p>
          ${who}${" "}
          ${typeof said === "function" ? said(body) : said}
          ${counts !== null && selects.length > 0 ? html` <b>${counts}</b> are waiting now.` : ""}
        </p>
        ${selects.length > 0 && html`
          <div>
            <${CopyAs}
              forms=${{
                curl: curl("POST", `/gates/${kind}`, body),
                cli: asCommand(kind, body),
                python: asPython(kind, body),
              }}
            />
          </div>
        `}
      </div>
    </div>
  `;
}

const WAITS = ["due", "delayed", "retrying"];

/** The number of waiting jobs that match a gate; null if unknown. */
function useCounts(selects) {
  const key = JSON.stringify(selects);
  const [found, setFound] = useState({ key: "", said: "" });
  useEffect(() => {
    if (key === "{}") return undefined;
    const gone = new AbortController();
    const waits = setTimeout(async () => {
      const told = await get("/jobs/counts", selects, gone.signal).catch(() => null);
      const counted = told?.items.filter((one) => WAITS.includes(one.state));
      if (counted) {
        setFound({
          key,
          said: atLeast(
            counted.reduce((sum, one) => sum + one.count, 0),
            counted.some((one) => one.is_bounded),
          ),
        });
      }
    }, LOOK_MS);
    return () => {
      clearTimeout(waits);
      gone.abort();
    };
  }, [key]);
  return found.key === key ? found.said : null;
}
