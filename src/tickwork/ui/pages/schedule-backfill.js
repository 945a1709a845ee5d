// The backfill dialog of a schedule: a preview of the occurrences, then their start.

import { html, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { count, many } from "../lib/format.js";
import { go } from "../lib/router.js";
import { moment } from "../lib/time.js";
import { TEXTS } from "../texts/schedules.js";
import { FormDialog } from "../parts/dialog.js";
import { say } from "../parts/toast.js";

const SHOWN = 8;
const DAY_MS = 86_400_000;

/** An instant in the format of a datetime-local input. @param {number} at */
function local(at) {
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** @param {{name: string, zone: string, onClose: () => void}} props */
export function Backfill({ name, zone, onClose }) {
  const [tried, setTried] = useState(/** @type {any} */ (null));
  const path = `/schedules/${part(name)}/backfill`;
  const bodyOf = (values) => ({
    from: new Date(values.from).toISOString(),
    to: new Date(values.to).toISOString(),
    parallel: values.parallel || 1,
  });
  const submit = async (values) => {
    const body = bodyOf(values);
    const key = JSON.stringify(body);
    if (tried?.key !== key) {
      setTried({ key, ...(await post(path, { ...body, dry_run: true })) });
      return false;
    }
    const done = await post(path, body);
    say(
      `${many(done.count, "occurrence")} of ${name} ${done.count === 1 ? "is" : "are"} started.`,
      done.job_ids[0] ? { action: { label: "View first", run: () => go(`/jobs/${done.job_ids[0]}`) } } : {},
    );
    return true;
  };
  return html`
    <${FormDialog}
      title="Backfill ${name}"
      does=${tried ? `Start ${count(tried.count)}` : "Preview"}
      wide
      onClose=${onClose}
      onSubmit=${submit}
    >
      <p>${TEXTS.backfillText}</p>
      <div class="fields" onInput=${() => setTried(null)}>
        <label class="field">
          <span>From</span>
          <input type="datetime-local" name="from" required defaultValue=${local(Date.now() - 7 * DAY_MS)} />
        </label>
        <label class="field">
          <span>To</span>
          <input type="datetime-local" name="to" required defaultValue=${local(Date.now())} />
        </label>
        <label class="field">
          <span>Concurrency</span>
          <input type="number" name="parallel" min="1" max="1000" defaultValue="1" />
        </label>
      </div>
      <p class="dim small">${TEXTS.backfillZone(Intl.DateTimeFormat().resolvedOptions().timeZone, zone)}</p>
      ${tried && html`<${Tried} tried=${tried} />`}
    </${FormDialog}>
  `;
}

function Tried({ tried }) {
  if (!tried.count) return html`<p class="notice" data-tone="warn">${TEXTS.noOccurrences}</p>`;
  const few =
    tried.due_at.length <= SHOWN * 2
      ? [tried.due_at, []]
      : [tried.due_at.slice(0, SHOWN), tried.count <= tried.due_at.length ? tried.due_at.slice(-SHOWN) : []];
  const item = (at) => html`<li class="num">${moment(at)}</li>`;
  return html`
    <div class="stack" role="status">
      <p><b>${many(tried.count, "occurrence")}</b> would start:</p>
      <ol class="dues">
        ${few[0].map(item)}
        ${few[1].length > 0 && html`<li class="dim">… ${count(tried.count - 2 * SHOWN)} more …</li>`}
        ${few[1].map(item)}
      </ol>
    </div>
  `;
}
