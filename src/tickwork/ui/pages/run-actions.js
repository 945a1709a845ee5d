// The actions on a run: cancel, rerun, and approve or reject a step.

import { html, useState } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many } from "../lib/format.js";
import { TEXTS } from "../texts/dags.js";
import { ask, FormDialog } from "../parts/dialog.js";
import { firstParams, ParamsForm, paramsOf, parsed } from "../parts/params-form.js";
import { attempt } from "../parts/toast.js";

/** @param {any} run @param {() => void} after */
export async function cancelRun(run, after) {
  const text = TEXTS.cancelRunText;
  if (!(await ask({ title: TEXTS.cancelRunTitle(run.dag), text, does: "Cancel run", isBad: true }))) return;
  await attempt(() => post(`/runs/${part(run.id)}/cancel`).then(after), TEXTS.runCancelled);
}

/** @param {any} run @param {() => void} after */
export function rerunFailed(run, after) {
  return attempt(() => post(`/runs/${part(run.id)}/rerun`, {}).then(after), TEXTS.rerunningFailed);
}

/** @param {any} run @param {string} step @param {() => void} after */
export async function rerunFrom(run, step, after) {
  const text = TEXTS.rerunFromText(step);
  if (!(await ask({ title: TEXTS.rerunFromTitle(step), text, does: "Rerun" }))) return;
  await attempt(() => post(`/runs/${part(run.id)}/rerun`, { from: [step] }).then(after), TEXTS.rerunningFrom(step));
}

/**
 * The dialog for a rerun: which steps, and with which parameters.
 * @param {{run: any, steps: import("../lib/run-steps.js").Step[], chosen: string | null, onClose: () => void,
 *   after:   () => void}} props
 */
export function RerunDialog({ run, steps, chosen, onClose, after }) {
  const { data: dag } = useResource(`/dags/${part(run.dag)}/versions/${run.version}`);
  const [what, setWhat] = useState(
    chosen ? "steps" : steps.some((step) => step.bad || step.state === "failed") ? "failed" : "all",
  );
  const [picked, setPicked] = useState(() => new Set(chosen ? [chosen] : []));
  if (!dag) return null;
  return html`<${Again} ...${{ run, steps, dag, what, setWhat, picked, setPicked, onClose, after }} />`;
}

function Again({ run, steps, dag, what, setWhat, picked, setPicked, onClose, after }) {
  const first = () => firstParams(dag.params, run.params || {});
  const [texts, setTexts] = useState(first);
  const [raw, setRaw] = useState(/** @type {string | null} */ (null));
  const submit = async () => {
    const params = raw === null ? paramsOf(dag.params, texts) : parsed(raw, "Parameters");
    const changed = Object.fromEntries(
      Object.entries(params).filter(([name, value]) => stringify(value) !== stringify(run.params?.[name])),
    );
    const all = steps.map((step) => step.name);
    const body = {
      from: what === "steps" ? [...picked] : what === "all" && !Object.keys(changed).length ? all : [],
      only_failed: what === "failed",
      with_inputs: Object.keys(changed).length ? changed : null,
    };
    await post(`/runs/${part(run.id)}/rerun`, body);
    after();
  };
  const choice = (id, label) => html`
    <label class="check">
      <input type="radio" name="what" value=${id} checked=${what === id} onChange=${() => setWhat(id)} />
      <span>${label}</span>
    </label>
  `;
  return html`
    <${FormDialog} title="Rerun ${run.dag}" does="Rerun" onClose=${onClose} onSubmit=${submit}>
      <fieldset class="stack">
        <legend class="hidden-label">Steps to rerun</legend>
        ${choice("failed", "Failed steps and their dependents")}
        ${choice("steps", "Selected steps and their dependents")}
        ${choice("all", "All steps")}
      </fieldset>
      ${what === "steps" && html`<${Picker} steps=${steps} picked=${picked} onPick=${setPicked} />`}
      <${ParamsForm} schema=${dag.params} texts=${texts} raw=${raw} onTexts=${setTexts} onRaw=${setRaw} />
      <p class="dim small">${TEXTS.rerunKeeps}</p>
    </${FormDialog}>
  `;
}

const SHOWN = 100;

/** A searchable list of steps. */
function Picker({ steps, picked, onPick }) {
  const [text, setText] = useState("");
  const found = steps.filter((step) => step.name.toLowerCase().includes(text.toLowerCase()));
  const toggle = (name) =>
    onPick(new Set(picked.has(name) ? [...picked].filter((one) => one !== name) : [...picked, name]));
  return html`
    <div class="picker">
      <input
        type="search"
        aria-label="Find a step"
        placeholder="Find a step"
        value=${text}
        onInput=${(event) => setText(event.target.value)}
      />
      <div class="picker-list">
        ${found
          .slice(0, SHOWN)
          .map(
            (step) => html`
              <label class="check" key=${step.name}>
                <input type="checkbox" checked=${picked.has(step.name)} onChange=${() => toggle(step.name)} />
                <span class="clip">${step.name}</span>
              </label>
            `,
          )}
      </div>
      <small class="dim">
        ${many(picked.size, "step")} selected${found.length > SHOWN ? `; ${found.length - SHOWN} more match` : ""}
      </small>
    </div>
  `;
}

/**
 * @param {{run: any, step: import("../lib/run-steps.js").Step, isYes: boolean, onClose: () => void, after: () => void}}
 *   props
 */
export function AnswerDialog({ run, step, isYes, onClose, after }) {
  const { data } = useResource(`/runs/${part(run.id)}/why/${part(step.name)}`);
  const submit = async ({ note }) => {
    await post(`/runs/${part(run.id)}/approve`, { step: step.name, approved: isYes, note: note ?? null });
    after();
  };
  return html`
    <${FormDialog}
      title="${isYes ? "Approve" : "Reject"}: ${step.name}"
      does=${isYes ? "Approve" : "Reject"}
      isBad=${!isYes}
      onClose=${onClose}
      onSubmit=${submit}
    >
      <p class="asked">${data?.why}</p>
      <p class="dim">${isYes ? TEXTS.approved : TEXTS.rejected} Your name is stored with the answer.</p>
      <label class="field">
        <span>Note <small class="dim">optional, visible to others</small></span>
        <input name="note" maxlength="1000" autocomplete="off" />
      </label>
    </${FormDialog}>
  `;
}
