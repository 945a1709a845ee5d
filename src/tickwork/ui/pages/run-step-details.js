// The details of one step of a run: state and reason, attempts or instances, and its actions.

import { html } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { count } from "../lib/format.js";
import { onJob, onRun } from "../lib/live.js";
import { href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { countsOf, inOrder, stateOfStep } from "../lib/run-steps.js";
import { TEXTS } from "../texts/dags.js";
import { Icon } from "../parts/icon.js";
import { Notice } from "../parts/loading-and-errors.js";
import { Facts } from "../parts/page-layout.js";
import { quietToneOf, Sign, State, wordOf } from "../parts/state-badge.js";
import { More } from "../parts/table.js";
import { Moment, Took } from "../parts/relative-time.js";
import { rerunFrom } from "./run-actions.js";

const jobHref = (id, query) => href(`/jobs/${part(id)}`, query);

/**
 * @param {{run: any, step: import("../lib/run-steps.js").Step, node: any, before: string[], next: string[], after: ()
 *   => void, onAnswer: (step: string, isYes: boolean) => void}} props
 */
export function StepView({ run, step, node, before, next, after, onAnswer }) {
  const { data: why } = useResource(`/runs/${part(run.id)}/why/${part(step.name)}`, { live: onRun(run.id) });
  const isOver = run.ended_at !== null;
  return html`
    <div class="step-view">
      <div class="row">
        <${State} state=${stateOfStep(step)} />
        ${step.is_mapped && html`<span class="tag">${count(step.total)} instances</span>`}
      </div>
      ${why && html`<p class="why ${step.bad || step.state === "failed" ? "bad-text" : "dim"}">${why.why}</p>`}
      ${step.is_asking && may("operate") && html`
        <${Notice} tone="warn" icon="hand">
          <div class="row">
            <button class="main" onClick=${() => onAnswer(step.name, true)}>Approve</button>
            <button onClick=${() => onAnswer(step.name, false)}>Reject</button>
          </div>
        </${Notice}>
      `}
      <div class="row">
        ${step.job_id && !step.is_mapped && html`
          <a class="button" href=${jobHref(step.job_id)}><${Icon} name="list" />Job</a>
          <a class="button" href=${jobHref(step.job_id, { tab: "logs" })}><${Icon} name="scroll-text" />Logs</a>
        `}
        ${may("operate") && isOver && html`
          <button onClick=${() => rerunFrom(run, step.name, after)}>
            <${Icon} name="rotate-ccw" />Rerun from here
          </button>
        `}
      </div>
      <${Facts}
        items=${[
          ["Task", step.task && html`<code>${step.task}</code>`],
          ["Started", step.started_at && html`<${Moment} at=${step.started_at} />`],
          ["Took", step.started_at && html`<${Took} from=${step.started_at} to=${step.ended_at} />`],
          ["Attempts", step.attempts > 0 && step.attempts],
          ["Runs if", node?.run_if && node.run_if !== "all_succeeded" && wordOf(node.run_if)],
          ["May fail", node?.may_fail && TEXTS.mayFail],
          ["When", node?.when?.length > 0 && html`<code>${node.when.join(" and ")}</code>`],
          ["Group", node?.group],
        ].map(([name, value]) => /** @type {[any, any]} */ ([name, value || null]))}
      />
      <${Links} title="Waits for" names=${before} />
      <${Links} title="Then" names=${next} />
      ${step.is_mapped
        ? html`<${Instances} run=${run} step=${step} />`
        : step.job_id && html`<${Attempts} job=${step.job_id} key=${step.job_id} />`}
    </div>
  `;
}

const LINKS = 12;

function Links({ title, names }) {
  if (!names.length) return null;
  return html`
    <section class="stack">
      <h3>${title}</h3>
      <div class="row">
        ${names
          .slice(0, LINKS)
          .map(
            (name) => html`<button key=${name} class="tag" onClick=${() => setQuery({ step: name })}>${name}</button>`,
          )}
        ${names.length > LINKS && html`<span class="dim">and ${count(names.length - LINKS)} more</span>`}
      </div>
    </section>
  `;
}

/** Counts by state as a bar with numbers. @param {{counts: Record<string, number>}} props */
export function CountsBar({ counts }) {
  const parts = inOrder(counts);
  return html`
    <div class="counts">
      <div class="counts-bar">
        ${parts.map(
          ([state, number]) => html`
            <i
              key=${state}
              data-tone=${quietToneOf(state)}
              style=${{ flexGrow: number }}
              title="${count(number)} ${wordOf(state)}"
            ></i>
          `,
        )}
      </div>
      <div class="row small">
        ${parts.map(
          ([state, number]) => html`
            <span key=${state} class="row tight" data-tone=${quietToneOf(state)}>
              <${Sign} state=${state} />
              <span><b class="num">${count(number)}</b> <span class="dim">${wordOf(state)}</span></span>
            </span>
          `,
        )}
      </div>
    </div>
  `;
}

function Instances({ run, step }) {
  const state = place.value.query.instances || "";
  const list = useList(`/runs/${part(run.id)}/instances`, {
    query: { step: step.name, state },
    live: onRun(run.id),
    idOf: (one) => String(one.idx),
    limit: 50,
  });
  const choose = (next) => setQuery({ instances: next });
  return html`
    <section class="stack">
      <h3>Instances</h3>
      <${CountsBar} counts=${countsOf(step)} />
      <div class="choice" role="group" aria-label="Filter by state">
        ${[
          ["", "All"],
          ["failed", "Failed"],
          ["running", "Running"],
          ["queued", "Queued"],
        ].map(
          ([id, label]) => html`
            <button key=${id} aria-pressed=${state === id} onClick=${() => choose(id)}>${label}</button>
          `,
        )}
      </div>
      <ul class="lines">
        ${list.items.map(
          (one) => html`
            <li key=${one.idx}>
              <a href=${jobHref(one.job_id)}>
                <${Sign} state=${one.state} />
                <span class="num">${step.name}[${one.idx}]</span>
                ${one.attempt > 1 && html`<span class="tag">attempt ${one.attempt}</span>`}
                <span class="end dim"><${Took} from=${one.started_at} to=${one.ended_at} none="not started" /></span>
              </a>
            </li>
          `,
        )}
      </ul>
      ${!list.items.length && !list.isLoading && html`
        <p class="dim">${state ? TEXTS.noInstancesIn(state) : TEXTS.noInstancesYet}</p>
      `}
      ${list.fresh > 0 && html`<button onClick=${list.showFresh}>${list.fresh} more</button>`}
      <${More} list=${list} />
    </section>
  `;
}

function Attempts({ job }) {
  const { data } = useResource(`/jobs/${part(job)}/attempts`, { query: { limit: 50 }, live: onJob(job) });
  if (!data?.items.length) return null;
  return html`
    <section class="stack">
      <h3>Attempts</h3>
      <ul class="lines">
        ${[...data.items]
          .reverse()
          .map(
            (one) => html`
              <li key=${one.number}>
                <a href=${jobHref(job)}>
                  <${Sign} state=${one.state} />
                  <span>attempt ${one.number}</span>
                  <span class="dim clip">${lastLine(one.error)}</span>
                  <span class="end dim"><${Took} from=${one.started_at} to=${one.ended_at} /></span>
                </a>
              </li>
            `,
          )}
      </ul>
    </section>
  `;
}

const lastLine = (text) => (text || "").trim().split("\n").at(-1);
