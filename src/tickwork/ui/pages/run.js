// The page of a run: graph, timeline and steps with live states, and its actions.

import { html, useCallback, useEffect, useMemo, useState } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { many, shortId } from "../lib/format.js";
import { named } from "../lib/graph.js";
import { onRun } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { firstSteps, tally, useSteps } from "../lib/run-steps.js";
import { clockOf, dayOf, explained } from "../lib/time.js";
import { TEXTS } from "../texts/dags.js";
import { Code } from "../parts/highlighted-code.js";
import { CopyAs, CopyButton, curl } from "../parts/copy-button.js";
import { Icon } from "../parts/icon.js";
import { Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { chosenTab, Tabs } from "../parts/tabs.js";
import { Tree } from "../parts/json-tree.js";
import { Took, When } from "../parts/relative-time.js";
import { dagHref } from "./dags.js";
import { AnswerDialog, cancelRun, rerunFailed, RerunDialog } from "./run-actions.js";
import { RunGraph } from "./run-graph.js";
import { SidePanel } from "../parts/side-panel.js";
import { CountsBar, StepView } from "./run-step-details.js";
import { StepTable } from "./run-step-table.js";

const TABS = [
  { id: "graph", label: "Graph" },
  { id: "timeline", label: "Timeline" },
  { id: "steps", label: "Steps" },
  { id: "events", label: "Events" },
  { id: "data", label: "Parameters and result" },
  { id: "code", label: "Code" },
];

const ASKING = 3; // maximum number of pending approvals above the tabs; the graph has all

/** Loads a module when its tab is opened. */
function Later({ load, ...props }) {
  const [page, setPage] = useState(/** @type {any} */ (null));
  useEffect(() => void load().then((module) => setPage(() => module.default)), []);
  return page ? html`<${page} ...${props} />` : html`<${Loading} />`;
}

const loadTimeline = () => import("./run-timeline.js");
const loadEvents = () => import("./run-events.js");

export default function Run({ params }) {
  const { data: run, problem, refresh } = useResource(`/runs/${part(params.id)}`, { live: onRun(params.id) });
  const steps = useSteps(params.id, run?.generation);
  const graph = useResource(`/runs/${part(params.id)}/graph`);
  const drawn = useMemo(() => graph.data && named(graph.data), [graph.data]);
  const first = useMemo(() => {
    const known = firstSteps(graph.data?.nodes || []);
    return { steps: known, list: [...known.values()] };
  }, [graph.data]);
  const after = useCallback(() => {
    refresh();
    steps.refresh();
  }, [refresh]);
  const trouble =
    (problem && !run && problem) ||
    (steps.problem && !steps.list && steps.problem) ||
    (graph.problem && !graph.data && graph.problem);
  if (trouble) {
    return html`
      <${Trouble}
        problem=${trouble}
        onRetry=${() => {
          after();
          graph.refresh();
        }}
      />
    `;
  }
  if (!run || !drawn) return html`<${Loading} />`;
  return html`<${Shown} run=${run} steps=${steps.list ? steps : first} graph=${drawn} after=${after} />`;
}

function Shown({ run, steps, graph, after }) {
  const [asking, setAsking] = useState(/** @type {any} */ (null));
  const [seek, setSeek] = useState(0);
  const { step: chosen = null, find = "", only = "" } = place.value.query;
  const tab = chosenTab(TABS);
  const isMatch = useMemo(() => matcher(find, only), [find, only]);
  const choose = useCallback(
    (name) => setQuery({ step: place.value.query.step === name ? undefined : name, instances: undefined }),
    [],
  );
  const answer = (step, isYes) => setAsking({ what: "answer", step, isYes });
  const close = () => setAsking(null);
  const waiting = steps.list.filter((step) => step.is_asking);
  const done = () => {
    after();
  };
  return html`
    <${Page}
      title=${html`${run.dag} <${State} state=${run.state} />`}
      name="${run.dag} run"
      trail=${[
        { label: "Dags", href: "#/dags" },
        { label: run.dag, href: dagHref(run.dag) },
      ]}
      lead=${html`<${Lead} run=${run} />`}
      actions=${html`<${Actions} run=${run} after=${after} onRerun=${() => setAsking({ what: "rerun" })} />`}
    >
      ${run.error && html`<${Notice} tone="bad" icon="circle-x"><span class="pre">${run.error}</span></${Notice}>`}
      ${waiting
        .slice(0, ASKING)
        .map((step) => html`<${Asking} key=${step.name} run=${run} step=${step} onAnswer=${answer} />`)}
      ${run.schedule && html`<${Occurrence} run=${run} />`}
      <div class="run-sum"><${CountsBar} counts=${tally(steps.list)} /></div>
      <div class="tabs-row">
        <${Tabs} tabs=${TABS} />
        ${["graph", "timeline", "steps"].includes(tab) && html`
          <${Finder} find=${find} only=${only} onNext=${() => setSeek(seek + 1)} />
        `}
      </div>
      <div class="with-side" data-open=${Boolean(chosen)}>
        <div class="main-side">
          ${tab === "graph" && html`
            <${RunGraph}
              data=${graph}
              steps=${steps.steps}
              chosen=${chosen}
              onChoose=${choose}
              isMatch=${isMatch}
              seek=${seek}
            />
          `}
          ${tab === "timeline" && html`
            <${Later}
              load=${loadTimeline}
              run=${run}
              list=${steps.list}
              edges=${graph.edges}
              chosen=${chosen}
              onChoose=${choose}
              isMatch=${isMatch}
            />
          `}
          ${tab === "steps" && html`
            <${StepTable} list=${steps.list} isMatch=${isMatch} onChoose=${choose} chosen=${chosen} />
          `}
          ${tab === "events" && html`<${Later} load=${loadEvents} run=${run} />`}
          ${tab === "data" && html`<${Data} run=${run} />`}
          ${tab === "code" && html`<${Source} run=${run} />`}
        </div>
        ${chosen && html`
          <${Side} run=${run} steps=${steps.steps} graph=${graph} chosen=${chosen} after=${after} onAnswer=${answer} />
        `}
      </div>
      ${asking?.what === "rerun" && html`
        <${RerunDialog} run=${run} steps=${steps.list} chosen=${chosen} onClose=${close} after=${done} />
      `}
      ${asking?.what === "answer" && html`
        <${AnswerDialog}
          run=${run}
          step=${steps.steps.get(asking.step)}
          isYes=${asking.isYes}
          onClose=${close}
          after=${done}
        />
      `}
    </${Page}>
  `;
}

/** A step that waits for approval: its question and the answers. */
function Asking({ run, step, onAnswer }) {
  const { data } = useResource(`/runs/${part(run.id)}/why/${part(step.name)}`);
  return html`
    <${Notice} tone="warn" icon="hand">
      <div class="row spread">
        <span><b>${step.name}</b> ${data?.why || "waits for approval"}</span>
        ${may("operate") && html`
          <span class="row">
            <button class="main" onClick=${() => onAnswer(step.name, true)}>Approve</button>
            <button onClick=${() => onAnswer(step.name, false)}>Reject</button>
          </span>
        `}
      </div>
    </${Notice}>
  `;
}

/** A predicate for steps by name and state; null: all steps. */
function matcher(find, only) {
  const text = find.trim().toLowerCase();
  if (!text && !only) return null;
  return (name, state) => (!text || name.toLowerCase().includes(text)) && (!only || state === only);
}

function Finder({ find, only, onNext }) {
  const again = (event) => event.key === "Enter" && onNext();
  return html`
    <div class="finder">
      <input
        type="search"
        aria-label="Find a step"
        placeholder="Find a step"
        value=${find}
        onInput=${(event) => setQuery({ find: event.target.value })}
        onKeyDown=${again}
      />
      <button
        aria-pressed=${only === "failed"}
        onClick=${() => setQuery({ only: only === "failed" ? undefined : "failed" })}
      >
        <${Icon} name="filter" />Failed
      </button>
    </div>
  `;
}

function Lead({ run }) {
  return html`
    <span class="run-id">
      <span class="mono" title=${run.id}>${shortId(run.id)}</span>
      <${CopyButton} text=${run.id} label="Copy run id" />
    </span>
    <a href=${dagHref(run.dag, { tab: "versions" })}>version ${run.version}</a>
    <span>
      created <${When} at=${run.created_at} />
      ${run.creator && html`
        ${" "}
        by <a class="link" href=${href("/jobs", { q: word("creator", run.creator) })}>${run.creator}</a>
      `}
    </span>
    ${run.started_at
      ? html`
          <span>${run.ended_at ? "took" : "running for"} <${Took} from=${run.started_at} to=${run.ended_at} /></span>
        `
      : html`<span>${run.why}</span>`}
    ${run.generation > 1 && html`<span>${many(run.generation - 1, "rerun")}</span>`}
    ${run.key && html`<span>key <code>${run.key}</code></span>`}
    ${run.labels.map((label) => html`<span class="tag">${label}</span>`)}
  `;
}

/** A date with its year, and a time: occurrences may be years old. */
const instant = (at) => html`<time datetime=${at} title=${explained(at)}>${dayOf(at)} ${clockOf(at)}</time>`;

/** The occurrence of the schedule that made the run. */
function Occurrence({ run }) {
  return html`
    <${Panel} label="Occurrence" class="occurrence">
      <${Facts}
        items=${[
          [
            "Scheduled for",
            html`${instant(run.scheduled_for)} ${run.is_catchup && html`<span class="tag">catch-up</span>`}`,
          ],
          ["Schedule", html`<a class="link" href=${href(`/schedules/${part(run.schedule)}`)}>${run.schedule}</a>`],
          ["Interval", run.interval && html`${instant(run.interval.from)} – ${instant(run.interval.to)}`],
        ]}
      />
    </${Panel}>
  `;
}

function Actions({ run, after, onRerun }) {
  const path = `/runs/${part(run.id)}`;
  const forms = { curl: curl("GET", path), cli: `tickwork runs show ${run.id}`, python: `app.run("${run.id}")` };
  const isOver = run.ended_at !== null;
  return html`
    ${may("operate") && !isOver && html`
      <button onClick=${() => cancelRun(run, after)}><${Icon} name="ban" />Cancel</button>
    `}
    ${may("operate") && run.state === "failed" && html`
      <button class="main" onClick=${() => rerunFailed(run, after)}><${Icon} name="rotate-ccw" />Rerun failed</button>
    `}
    ${may("operate") && isOver && html`<button onClick=${onRerun}><${Icon} name="repeat" />Rerun…</button>`}
    <a class="button" href=${dagHref(run.dag, { tab: "grid" })}><${Icon} name="grid-3x3" />Grid</a>
    <${CopyAs} forms=${forms} label=${html`<span data-from="tablet">Copy as</span>`} />
  `;
}

function Side({ run, steps, graph, chosen, after, onAnswer }) {
  const step = steps.get(chosen);
  const close = () => setQuery({ step: undefined, instances: undefined });
  if (!step) {
    return html`
      <${SidePanel} title=${chosen} onClose=${close}><p class="dim">${TEXTS.noSuchStepInRun}</p></${SidePanel}>
    `;
  }
  const before = graph.edges.filter((edge) => edge.to === chosen).map((edge) => edge.from);
  const next = graph.edges.filter((edge) => edge.from === chosen).map((edge) => edge.to);
  return html`
    <${SidePanel} title=${chosen} onClose=${close}>
      <${StepView}
        key=${chosen}
        run=${run}
        step=${step}
        node=${graph.nodes.find((node) => node.name === chosen)}
        before=${before}
        next=${next}
        after=${after}
        onAnswer=${onAnswer}
      />
    </${SidePanel}>
  `;
}

function Data({ run }) {
  return html`
    <div class="grid-2">
      <${Panel} title="Parameters">
        <div class="inner"><${Tree} value=${run.params} label="parameters" /></div>
      </${Panel}>
      <${Panel} title="Result">
        <div class="inner">
          ${run.state === "succeeded"
            ? html`<${Tree} value=${run.result} label="result" />`
            : html`<p class="dim">${TEXTS.runResultLater}</p>`}
        </div>
      </${Panel}>
    </div>
  `;
}

function Source({ run }) {
  const { data, problem } = useResource(`/dags/${part(run.dag)}/source`, { query: { version: run.version } });
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  return data ? html`<${Code} text=${data.text} language="yaml" />` : html`<${Loading} />`;
}
