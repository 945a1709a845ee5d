// The dialog that starts a run of a dag: a form for its parameters, and the same call to copy.

import { html, useState } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { pythonCall } from "../lib/python-syntax.js";
import { part, post } from "../lib/api.js";
import { go } from "../lib/router.js";
import { TEXTS } from "../texts/dags.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { FormDialog } from "../parts/dialog.js";
import { firstParams, ParamsForm, paramsOf, parsed } from "../parts/params-form.js";
import { say } from "../parts/toast.js";

/** The same call as curl, command and Python. @param {string} name @param {Record<string, any>} params */
function forms(name, params) {
  const said = Object.keys(params).length ? ["--json", quoted(stringify(params))] : [];
  return {
    curl: curl("POST", `/dags/${part(name)}/runs`, { params }),
    cli: ["tickwork run", quoted(name), ...said].join(" "),
    python: pythonCall("app.enqueue", [name], params),
  };
}

/** @param {{dag: {name: string, params: any}, onClose: () => void}} props */
export function StartDialog({ dag, onClose }) {
  const [texts, setTexts] = useState(() => firstParams(dag.params));
  const [raw, setRaw] = useState(/** @type {string | null} */ (null));
  const params = () => (raw === null ? paramsOf(dag.params, texts) : parsed(raw, "Parameters"));
  const submit = async () => {
    const run = await post(`/dags/${part(dag.name)}/runs`, { params: params() });
    say(TEXTS.runStarted(dag.name));
    go(`/runs/${part(run.id)}`);
  };
  let copies = null;
  try {
    copies = forms(dag.name, params());
  } catch {
    // Invalid parameters cannot be copied.
  }
  return html`
    <${FormDialog} title="Start a run of ${dag.name}" does="Start" onClose=${onClose} onSubmit=${submit}>
      <${ParamsForm} schema=${dag.params} texts=${texts} raw=${raw} onTexts=${setTexts} onRaw=${setRaw} />
      ${copies && html`<div class="row"><${CopyAs} forms=${copies} /></div>`}
    </${FormDialog}>
  `;
}
