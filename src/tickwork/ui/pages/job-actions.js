// The actions on one job: retry, run now, reschedule, rerun, cancel.

import { html, useState } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { pythonCall } from "../lib/python-syntax.js";
import { part, post } from "../lib/api.js";
import { useKeys } from "../lib/keyboard.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/jobs.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { ask, FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { attempt, say } from "../parts/toast.js";
import { whenOf, WhenFields } from "./jobs-bulk-actions.js";
import { Rerun } from "./job-rerun.js";

const ENDED = new Set(["failed", "cancelled", "dropped", "expired"]);

/** @param {{job: any, onChanged: () => void}} props */
export function JobActions({ job, onChanged }) {
  const [opened, setOpened] = useState(/** @type {"reschedule" | "rerun" | null} */ (null));
  const path = `/jobs/${part(job.id)}`;
  const isLater = job.state === "queued" && Date.parse(job.run_at) > Date.now();
  const can = {
    retry: may("operate") && (ENDED.has(job.state) || isLater),
    cancel: may("operate") && job.ended_at === null && !job.is_cancel_requested,
    reschedule: may("operate") && job.state === "queued",
    rerun: may("enqueue") && !job.is_run && !job.run_id,
  };
  const retry = () =>
    attempt(() => post(`${path}/retry`).then(onChanged), isLater ? TEXTS.jobDueNow : TEXTS.jobRetried);
  const cancel = async () => {
    const isRunning = job.state === "running";
    const text = isRunning ? TEXTS.cancelRunningText : TEXTS.cancelQueuedText;
    if (await ask({ title: `Cancel ${job.task}?`, text, does: "Cancel job", isBad: true })) {
      await attempt(
        () => post(`${path}/cancel`).then(onChanged),
        isRunning ? TEXTS.cancelRequested : TEXTS.jobCancelled,
      );
    }
  };
  const reschedule = async (values) => {
    await post(`${path}/reschedule`, whenOf(values));
    say(TEXTS.jobRescheduled);
    onChanged();
  };
  useKeys([
    ...(can.retry ? [{ keys: "r", does: "retry job", run: retry }] : []),
    ...(can.cancel ? [{ keys: "c", does: "cancel job", run: cancel }] : []),
    ...(can.rerun ? [{ keys: "e", does: "rerun with edited arguments", run: () => setOpened("rerun") }] : []),
  ]);
  return html`
    ${can.retry && html`
      <button class="main" onClick=${retry}>
        <${Icon} name=${isLater ? "zap" : "rotate-ccw"} />
        ${isLater ? "Run now" : "Retry"}
      </button>
    `}
    ${can.reschedule && html`
      <button onClick=${() => setOpened("reschedule")}><${Icon} name="clock" />Reschedule</button>
    `}
    ${can.rerun && html`<button onClick=${() => setOpened("rerun")}><${Icon} name="pencil" />Rerun edited</button>`}
    ${can.cancel && html`<button onClick=${cancel}><${Icon} name="ban" />Cancel</button>`}
    <${CopyAs} forms=${formsOf(job)} />
    ${opened === "rerun" && html`<${Rerun} job=${job} onClose=${() => setOpened(null)} />`}
    ${opened === "reschedule" && html`
      <${FormDialog}
        title="Reschedule ${job.task}"
        does="Reschedule"
        onSubmit=${reschedule}
        onClose=${() => setOpened(null)}
      >
        <p>${TEXTS.rescheduleText}</p>
        <${WhenFields} />
      </${FormDialog}>
    `}
  `;
}

/** The call that enqueues the same job, as curl, command and Python. */
function formsOf(job) {
  const args = job.args ?? {};
  return {
    curl: curl("POST", "/jobs", { task: job.task, args, queue: job.queue }),
    cli: `tickwork enqueue ${quoted(job.task)} --json ${quoted(stringify(args))} --queue ${quoted(job.queue)}`,
    python: pythonCall("app.enqueue", [job.task], args),
  };
}
