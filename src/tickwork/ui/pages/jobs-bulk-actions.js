// Bulk actions on jobs: a dialog previews the number of affected jobs, then the server executes the change.

import { html, useEffect, useState } from "../vendor/core.js";
import { post } from "../lib/api.js";
import { count, many, shortId } from "../lib/format.js";
import { TEXTS } from "../texts/jobs.js";
import { FormDialog, Refusal } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Loading } from "../parts/loading-and-errors.js";
import { Sign } from "../parts/state-badge.js";
import { shownState } from "./jobs-columns.js";

/** @typedef {"retry"|"cancel"|"reschedule"|"discard"} Action */
/** @typedef {{ids: string[]} | {filter: Record<string, any>}} Which */

export const ACTIONS =
  /** @type {Record<Action, {label: string, icon: string, text: string, none: string, isBad?: boolean}>} */ ({
    retry: {
      label: "Retry",
      icon: "rotate-ccw",
      text: TEXTS.bulkRetry,
      none: TEXTS.bulkNoRetry,
    },
    cancel: {
      label: "Cancel",
      icon: "ban",
      text: TEXTS.bulkCancel,
      none: TEXTS.bulkNoCancel,
      isBad: true,
    },
    reschedule: {
      label: "Reschedule",
      icon: "clock",
      text: TEXTS.bulkReschedule,
      none: TEXTS.bulkNoReschedule,
    },
    discard: {
      label: "Discard",
      icon: "trash-2",
      text: TEXTS.bulkDiscard,
      none: TEXTS.bulkNoDiscard,
      isBad: true,
    },
  });

const PREVIEWED = { reschedule: { delay: "1h" } }; // a preview needs a time

/**
 * The selection without jobs that were created after it was displayed.
 * @param {Which} which
 * @param {string} at
 * @returns {Which}
 */
const until = (which, at) => ("filter" in which ? { filter: { created_before: at, ...which.filter } } : which);

/**
 * The dialog before a bulk change: the number of jobs and some examples.
 * @param {{action: Action, which: Which, onClose: () => void, onBegun: (operation: any, total: number | null) =>
 *   void}}   props
 */
export function BulkDialog({ action, which, onClose, onBegun }) {
  const [tried, setTried] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  useEffect(() => {
    post("/bulk", { action, ...which, ...PREVIEWED[action], dry_run: true }).then(setTried, setProblem);
  }, []);
  const { label, text, none, isBad } = ACTIONS[action];
  const size = tried && (tried.is_partial ? `${count(tried.count)} or more jobs` : many(tried.count, "job"));
  const submit = async (values) => {
    const operation = await post("/bulk", { action, ...until(which, tried.at), ...timed(action, values) });
    onBegun(operation, tried.is_partial ? null : tried.count);
  };
  const isNothing = tried?.count === 0 && !tried.is_partial;
  return html`
    <${FormDialog}
      isReady=${Boolean(tried || problem)}
      title=${tried ? `${label} ${size}` : label}
      does=${tried && !isNothing ? `${label} ${size}` : "OK"}
      isBad=${isBad && !isNothing}
      onSubmit=${tried && !isNothing ? submit : async () => {}}
      onClose=${onClose}
    >
      ${problem
        ? html`<${Refusal} problem=${problem} />`
        : !tried
          ? html`<${Loading} />`
          : isNothing
            ? html`<p>${none}</p>`
            : html`<${Preview} tried=${tried} text=${text} />`}
      ${tried && !isNothing && action === "reschedule" && html`<${WhenFields} />`}
      ${tried && tried.count > 1 && action === "retry" && html`
        <label class="field">
          <span>Rate</span>
          <input name="rate" placeholder="50/s" autocomplete="off" />
          <small>${TEXTS.bulkRateHint}</small>
        </label>
      `}
    </${FormDialog}>
  `;
}

function Preview({ tried, text }) {
  const rest = tried.count - tried.sample.length;
  return html`
    <p>${text}</p>
    <ul class="sample" aria-label="Preview">
      ${tried.sample.map(
        (job) => html`
          <li key=${job.id}>
            <${Sign} state=${shownState(job)} />
            <b>${job.task}</b>
            <span class="mono dim">${shortId(job.id)}</span>
            ${job.error && html`<span class="clip bad-text">${job.error}</span>`}
          </li>
        `,
      )}
    </ul>
    ${(rest > 0 || tried.is_partial) && html`
      <p class="dim small">
        and ${count(rest)}${tried.is_partial ? " or more" : ""} others. Jobs that are created later are not included.
      </p>
    `}
  `;
}

/** The fields for a new due time. */
export function WhenFields() {
  return html`
    <div class="fields">
      <label class="field">
        <span>Delay</span>
        <input name="delay" placeholder="30m" autocomplete="off" autofocus />
        <small>10s, 30m, 1h30m; 0s means now</small>
      </label>
      <label class="field">
        <span>Time</span>
        <input name="at" type="datetime-local" step="1" />
        <small>in this browser's time zone</small>
      </label>
    </div>
  `;
}

/** The time from the fields of a dialog. @param {Record<string, any>} values */
export function whenOf({ delay, at }) {
  return at ? { at: new Date(at).toISOString() } : { delay: delay || "0s" };
}

function timed(action, values) {
  if (action === "reschedule") return whenOf(values);
  return values.rate ? { rate: values.rate } : {};
}

const FOR = {
  retry: ["failed", "cancelled", "dropped", "expired"],
  cancel: ["due", "delayed", "retrying", "running", "queued"],
  reschedule: ["due", "delayed", "retrying", "queued"],
  discard: ["failed"],
};

/**
 * The toolbar for selected jobs. `states` are their states; null: any.
 * @param {{selection: any, states: string[] | null, matching: string | null, canAll: boolean, onAll: () => void,
 *   hint?:   any, onAction: (action: Action) => void}} props
 */
export function BulkBar({ selection, states, matching, canAll, onAll, hint, onAction }) {
  const possible = Object.entries(ACTIONS).filter(
    ([action]) => !states || states.some((state) => FOR[action].includes(state)),
  );
  return html`
    <div class="bulk" role="toolbar" aria-label="Actions for selected jobs">
      <span>
        ${selection.isAll
          ? html`<b>All ${matching} matching</b>`
          : html`<b>${many(selection.size, "job")}</b> selected`}
      </span>
      ${!selection.isAll && canAll && html`
        <button class="link" onClick=${onAll}>Select all ${matching} matching</button>
      `}
      ${hint}
      <span class="bulk-actions">
        ${possible.map(
          ([action, { label, icon }]) => html`
            <button key=${action} onClick=${() => onAction(/** @type {Action} */ (action))}>
              <${Icon} name=${icon} />
              ${label}
            </button>
          `,
        )}
        <button class="bare" aria-label="Clear selection" title="Clear selection (Escape)" onClick=${selection.clear}>
          <${Icon} name="x" />
        </button>
      </span>
    </div>
  `;
}
