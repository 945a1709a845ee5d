// The dialogs before dead letters are redriven or discarded: their number and a preview.

import { html, useEffect, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { count, many, shortId } from "../lib/format.js";
import { href } from "../lib/router.js";
import { TEXTS } from "../texts/dead.js";
import { FormDialog, Refusal } from "../parts/dialog.js";
import { Loading, Notice } from "../parts/loading-and-errors.js";
import { say } from "../parts/toast.js";
import { filterOf } from "./dead-group.js";

const TYPED_FROM = 10;
const SAMPLE = 8;

/** The filters of groups; all groups together are one filter for every dead letter. */
const filtersOf = (groups, isAll) => (isAll ? [{}] : groups.map(filterOf));

/** Preview an operation: the number of jobs and some examples. */
function useTry(action, groups, isAll) {
  const [tried, setTried] = useState({
    count: 0,
    isPartial: false,
    sample: /** @type {any[]} */ ([]),
    counts: /** @type {number[]} */ ([]),
    at: "",
    isReady: false,
    problem: /** @type {any} */ (null),
  });
  useEffect(() => {
    const ask = (filter) => post("/bulk", { action, filter: { ...filter, dead: true }, dry_run: true });
    Promise.all(filtersOf(groups, isAll).map(ask)).then(
      (all) =>
        setTried({
          count: all.reduce((sum, one) => sum + one.count, 0),
          isPartial: all.some((one) => one.is_partial),
          sample: all.flatMap((one) => one.sample).slice(0, SAMPLE),
          counts: all.map((one) => (one.is_partial ? null : one.count)),
          at: all[0]?.at,
          isReady: true,
          problem: null,
        }),
      (problem) => setTried((now) => ({ ...now, problem })),
    );
  }, []);
  return tried;
}

const areOf = (tried) => `${sizeOf(tried)} ${tried.count === 1 && !tried.isPartial ? "is" : "are"}`;
const sizeOf = (tried) =>
  `${count(tried.count)}${tried.isPartial ? " or more" : ""} ${tried.count === 1 && !tried.isPartial ? "job" : "jobs"}`;

/** Start an operation for each group. If one is refused, earlier ones continue and are shown. */
async function begin(path, groups, isAll, tried, more, onBegun) {
  const operations = [];
  try {
    for (const [at, filter] of filtersOf(groups, isAll).entries()) {
      const operation = await post(path, { filter: { ...filter, created_before: tried.at }, ...more });
      operations.push({ id: operation.id, total: tried.counts[at] });
    }
  } finally {
    if (operations.length) onBegun(operations);
  }
}

/** @param {{groups: any[], isAll: boolean, onClose: () => void, onBegun: (operations: any[]) => void}} props */
export function RedriveDialog({ groups, isAll, onClose, onBegun }) {
  const tried = useTry("redrive", groups, isAll);
  const submit = ({ rate }) =>
    begin("/dead/redrive", groups, isAll, tried, rate ? { rate } : {}, onBegun).then(() =>
      say(TEXTS.redriveStarted(areOf(tried), rate ? `, ${rate}` : "")),
    );
  return html`
    <${FormDialog}
      title=${tried.isReady ? `Redrive ${sizeOf(tried)}` : "Redrive"}
      does=${tried.isReady ? `Redrive ${sizeOf(tried)}` : "Redrive"}
      isReady=${tried.isReady && tried.count > 0}
      onClose=${onClose}
      onSubmit=${submit}
    >
      <p>${TEXTS.redriveText}</p>
      <${Sample} tried=${tried} groups=${groups} isAll=${isAll} />
      <div class="fields">
        <label class="field">
          <span>Rate</span>
          <input name="rate" placeholder="no limit" autocomplete="off" list="redrive-rates" />
          <small>${TEXTS.redriveRateHint}</small>
        </label>
      </div>
      <datalist id="redrive-rates">
        ${["1/s", "10/s", "50/s", "100/m"].map((one) => html`<option value=${one} />`)}
      </datalist>
      <p class="dim small">${TEXTS.redriveQueue} <a href=${href("/queues", { tab: "gates" })}>Gates</a>.</p>
    </${FormDialog}>
  `;
}

/** @param {{groups: any[], isAll: boolean, onClose: () => void, onBegun: (operations: any[]) => void}} props */
export function DiscardDialog({ groups, isAll, onClose, onBegun }) {
  const tried = useTry("discard", groups, isAll);
  const isTyped = tried.count > TYPED_FROM || tried.isPartial;
  const submit = () =>
    begin("/dead/discard", groups, isAll, tried, {}, onBegun).then(() => say(TEXTS.discardStarted(areOf(tried))));
  return html`
    <${FormDialog}
      title=${tried.isReady ? `Discard ${sizeOf(tried)}` : "Discard"}
      does=${tried.isReady ? `Discard ${sizeOf(tried)}` : "Discard"}
      isBad
      isReady=${tried.isReady && tried.count > 0}
      onClose=${onClose}
      onSubmit=${submit}
    >
      <p>${TEXTS.discardText}</p>
      <${Sample} tried=${tried} groups=${groups} isAll=${isAll} />
      ${isTyped && html`
        <label class="field">
          <span>Type <code>discard</code> to confirm</span>
          <input name="typed" required pattern="discard" title="discard" autocomplete="off" />
        </label>
      `}
    </${FormDialog}>
  `;
}

function Sample({ tried, groups, isAll }) {
  if (tried.problem) return html`<${Refusal} problem=${tried.problem} />`;
  if (!tried.isReady) return html`<${Loading} />`;
  if (!tried.count) return html`<p class="dim">${TEXTS.deadGone}</p>`;
  const rest = tried.count - tried.sample.length;
  const others = isAll || tried.isPartial ? 0 : tried.count - groups.reduce((sum, one) => sum + one.count, 0);
  return html`
    ${others > 0 && html`
      <${Notice} tone="warn" icon="triangle-alert">
        ${many(others, "of these is", "of these are")} in other groups: this group is selected by words of its error
        that also occur in those errors.
      </${Notice}>
    `}
    <div class="sample-box">
      <ul class="dead-sample" aria-label="Preview">
        ${tried.sample.map(
          (job) => html`
            <li key=${job.id}>
              <a class="mono" href=${href(`/jobs/${part(job.id)}`)} target="_blank">${shortId(job.id)}</a>
              <b>${job.task}</b>
              <span class="dim">${job.queue}</span>
              <span class="clip bad-text">${job.error}</span>
            </li>
          `,
        )}
      </ul>
      ${(rest > 0 || tried.isPartial) && html`
        <p class="dim small">
          and ${many(rest, "other")}${tried.isPartial ? " or more" : ""}. Jobs that fail later are not included.
        </p>
      `}
    </div>
  `;
}
