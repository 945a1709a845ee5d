// The events of a run in their order.

import { html, useCallback, useEffect, useRef, useState } from "../vendor/core.js";
import { get, part } from "../lib/api.js";
import { onRun, useChanges } from "../lib/live.js";
import { href, setQuery } from "../lib/router.js";
import { exactClock } from "../lib/time.js";
import { Icon } from "../parts/icon.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { signOf, toneOf, wordOf } from "../parts/state-badge.js";
import { More } from "../parts/table.js";

const PAGE = 200;
const SAID = {
  run_created: "The run was created",
  run_started: "The run started",
  run_retried: "The run was rerun",
  run_ended: "The run ended",
  step_started: "started",
  step_retried: "is retried",
  step_asked: "waits for approval",
  step_ended: "ended",
};
const SIGNS = {
  run_created: ["circle-dashed", "queue"],
  run_started: ["circle-play", "run"],
  run_retried: ["rotate-ccw", "run"],
  step_started: ["circle-play", "run"],
  step_retried: ["rotate-ccw", "warn"],
  step_asked: ["hand", "warn"],
};

/** Events are appended: complete pages never change, and only the last one is reloaded. */
function useEvents(run) {
  const [held, setHeld] = useState({
    whole: /** @type {any[]} */ ([]),
    last: /** @type {any[] | null} */ (null),
    cursor: /** @type {string | null} */ (null),
    next: /** @type {string | null} */ (null),
    problem: /** @type {any} */ (null),
  });
  const now = useRef(held);
  now.current = held;
  const read = useCallback(
    async (isMore) => {
      const from = isMore ? now.current.next : now.current.cursor;
      try {
        const page = await get(`/runs/${part(run)}/events`, { limit: PAGE, cursor: from });
        setHeld((before) => ({
          whole: isMore ? [...before.whole, ...before.last] : before.whole,
          last: page.items,
          cursor: from,
          next: page.next_cursor,
          problem: null,
        }));
      } catch (problem) {
        setHeld((before) => ({ ...before, problem }));
      }
    },
    [run],
  );
  useEffect(() => void read(false), [read]);
  useChanges(onRun(run), () => read(false));
  const items = held.last && [...held.whole, ...held.last];
  return { items, problem: held.problem, hasMore: held.next !== null, next: held.next, more: () => read(true) };
}

/** @param {{run: any}} props */
export default function Events({ run }) {
  const list = useEvents(run.id);
  if (list.problem && !list.items) return html`<${Trouble} problem=${list.problem} />`;
  if (!list.items) return html`<${Loading} />`;
  if (!list.items.length) return html`<${Empty} icon="history" title="No events yet" />`;
  return html`
    <${Panel} label="Events">
      <ol class="events">${list.items.map((one, at) => html`<${Event} key=${at} event=${one} />`)}</ol>
      <${More} list=${{ ...list, items: list.items }} />
    </${Panel}>
  `;
}

function Event({ event }) {
  const [icon, tone] =
    SIGNS[event.event] || (event.state ? [signOf(event.state), toneOf(event.state)] : ["circle-dot", "off"]);
  const name = event.step && `${event.step}${event.idx ? `[${event.idx}]` : ""}`;
  const said =
    event.event.endsWith("_ended") && event.state
      ? event.step
        ? wordOf(event.state)
        : `The run ${wordOf(event.state)}`
      : SAID[event.event] || wordOf(event.event);
  return html`
    <li data-tone=${tone}>
      <time class="dim num" datetime=${event.at} title=${event.at}>${exactClock(event.at)}</time>
      <${Icon} name=${icon} />
      <span class="event-said">
        ${name && html`<button class="link" onClick=${() => setQuery({ step: event.step })}>${name}</button>`}${" "}
        ${said}
        ${event.attempt > 1 ? html` <span class="tag">attempt ${event.attempt}</span>` : null}
        ${event.detail && html` <span class="dim">${event.detail}</span>`}
      </span>
      ${event.job_id && event.step && html`<a class="end dim" href=${href(`/jobs/${part(event.job_id)}`)}>job</a>`}
    </li>
  `;
}
