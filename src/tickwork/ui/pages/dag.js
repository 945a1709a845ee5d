// The page of a dag: graph, grid of runs, runs, versions and code.

import { html, useState } from "../vendor/core.js";
import { part, remove } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { many, shortId } from "../lib/format.js";
import { onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { go, href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Code } from "../parts/highlighted-code.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { ask } from "../parts/dialog.js";
import { Graph } from "../parts/graph-view.js";
import { GridTable } from "../parts/run-grid-view.js";
import { useGrid } from "../lib/run-grid.js";
import { TEXTS } from "../texts/dags.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { SidePanel } from "../parts/side-panel.js";
import { State } from "../parts/state-badge.js";
import { More, Table } from "../parts/table.js";
import { chosenTab, Tabs } from "../parts/tabs.js";
import { attempt } from "../parts/toast.js";
import { Took, When } from "../parts/relative-time.js";
import { StartDialog } from "./dag-start-dialog.js";
import { Versions } from "./dag-versions.js";

const TABS = [
  { id: "graph", label: "Graph" },
  { id: "grid", label: "Grid" },
  { id: "runs", label: "Runs" },
  { id: "versions", label: "Versions" },
  { id: "code", label: "Code" },
];

export default function Dag({ params }) {
  const { version } = place.value.query;
  const path = `/dags/${part(params.name)}${version ? `/versions/${part(version)}` : ""}`;
  const { data: dag, problem, refresh } = useResource(path, { live: onTopics("dags") });
  const [isStarting, setStarting] = useState(false);
  if (problem && !dag) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  if (!dag) return html`<${Loading} />`;
  const tab = chosenTab(TABS);
  return html`
    <${Page}
      title=${dag.name}
      trail=${[{ label: "Dags", href: "#/dags" }]}
      lead=${html`<${Lead} dag=${dag} />`}
      actions=${html`<${Actions} dag=${dag} onStart=${() => setStarting(true)} />`}
    >
      <${Tabs} tabs=${TABS} />
      ${tab === "graph" && html`<${Drawn} dag=${dag} />`}
      ${tab === "grid" && html`<${GridTab} dag=${dag} onStart=${() => setStarting(true)} />`}
      ${tab === "runs" && html`<${Runs} dag=${dag} />`}
      ${tab === "versions" && html`<${Versions} dag=${dag} />`}
      ${tab === "code" && html`<${Source} dag=${dag} />`}
      ${isStarting && html`<${StartDialog} dag=${dag} onClose=${() => setStarting(false)} />`}
    </${Page}>
  `;
}

function Lead({ dag }) {
  return html`
    ${dag.description && html`<span>${dag.description}</span>`}
    <span>
      version ${dag.version}
      ${dag.version === dag.newest
        ? ""
        : html`
            ${" "}
            of ${dag.newest},${" "}
            <button class="link" onClick=${() => setQuery({ version: undefined })}>show latest</button>
          `}
    </span>
    <span>${many(dag.nodes.length, "step")}</span>
    <span>stored <${When} at=${dag.created_at} /></span>
    ${dag.on.length > 0 && html`<span>runs on ${dag.on.map((one) => one.join(" and ")).join(" or ")}</span>`}
  `;
}

function Actions({ dag, onStart }) {
  const name = quoted(dag.name);
  const drop = async () => {
    const text = TEXTS.deleteDagText;
    if (!(await ask({ title: TEXTS.deleteDagTitle(dag.name), text, does: "Delete", isBad: true, confirm: dag.name }))) {
      return;
    }
    await attempt(() => remove(`/dags/${part(dag.name)}`).then(() => go("/dags")), TEXTS.dagDeleted(dag.name));
  };
  return html`
    ${may("enqueue") && html`<button class="main" onClick=${onStart}><${Icon} name="play" />Start run</button>`}
    <${CopyAs}
      forms=${{
        curl: curl("GET", `/dags/${part(dag.name)}`),
        cli: `tickwork dags show ${name}`,
        python: `app.dag_versions(${JSON.stringify(dag.name)})[0]`,
      }}
      label=${html`<span data-from="tablet">Copy as</span>`}
    />
    ${may("operate") && html`
      <${Menu}
        icon="ellipsis"
        title="More"
        class="icon-only"
        align="right"
        items=${[{ label: "Delete", icon: "trash-2", isBad: true, run: drop }]}
      />
    `}
  `;
}

const plain = () => null;

function Drawn({ dag }) {
  const chosen = place.value.query.step || null;
  const node = dag.nodes.find((one) => one.name === chosen);
  const choose = (name) => setQuery({ step: name === chosen ? undefined : name });
  if (!dag.nodes.length) {
    return html`
      <${Panel} label="Graph">
        <${Empty} icon="workflow" title=${TEXTS.noSteps}>${TEXTS.noStepsText}</${Empty}>
      </${Panel}>
    `;
  }
  return html`
    <div class="with-side" data-open=${Boolean(chosen)}>
      <div class="main-side">
        <${Graph}
          key=${dag.version}
          data=${dag}
          look=${plain}
          chosen=${chosen}
          onChoose=${choose}
          label="Graph of the steps"
        />
      </div>
      ${chosen && html`
        <${SidePanel} title=${chosen} onClose=${() => setQuery({ step: undefined })}>
          ${node
            ? html`<${NodeView} dag=${dag} node=${node} />`
            : html`<p class="dim">${TEXTS.noSuchStepInVersion}</p>`}
        </${SidePanel}>
      `}
    </div>
  `;
}

function NodeView({ dag, node }) {
  const links = (names) =>
    names.map(
      (name) => html`<button key=${name} class="tag" onClick=${() => setQuery({ step: name })}>${name}</button>`,
    );
  const before = dag.edges.filter((edge) => edge.to === node.name).map((edge) => edge.from);
  const next = dag.edges.filter((edge) => edge.from === node.name).map((edge) => edge.to);
  return html`
    <div class="step-view">
      <${Facts}
        items=${[
          ["Task", node.task && html`<code>${node.task}</code>`],
          ["Kind", node.mapped ? TEXTS.kindMapped : node.kind === "approval" ? TEXTS.kindApproval : "one job"],
          ["Runs if", (node.run_if || "all_succeeded").replaceAll("_", " ")],
          ["May fail", node.may_fail && TEXTS.mayFail],
          ["When", node.when?.length > 0 ? html`<code>${node.when.join(" and ")}</code>` : null],
          ["Group", node.group || null],
        ]}
      />
      ${before.length > 0 && html`
        <section class="stack"><h3>Waits for</h3><div class="row">${links(before)}</div></section>
      `}
      ${next.length > 0 && html`<section class="stack"><h3>Then</h3><div class="row">${links(next)}</div></section>`}
      ${node.task && html`
        <a class="link" href=${href("/jobs", { q: word("task", node.task) })}>Jobs of ${node.task}</a>
      `}
    </div>
  `;
}

function GridTab({ dag, onStart }) {
  const { grid, problem, older, moreSteps, refresh } = useGrid(dag.name);
  if (problem && !grid) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  if (!grid) return html`<${Loading} />`;
  if (!grid.runs.length) return html`<${NoRuns} dag=${dag} onStart=${onStart} />`;
  return html`
    <${Panel} label="Grid"><${GridTable} grid=${grid} onOlder=${older} onMoreSteps=${moreSteps} /></${Panel}>
  `;
}

function NoRuns({ dag, onStart }) {
  return html`
    <${Panel} label="Runs">
      <${Empty} icon="workflow" title="No runs yet" code=${`tickwork run ${quoted(dag.name)} --watch`} language="bash">
        ${may("enqueue") && onStart
          ? html`<button class="main" onClick=${onStart}><${Icon} name="play" />Start run</button>`
          : TEXTS.runsAppearHere}
      </${Empty}>
    </${Panel}>
  `;
}

const STATES = ["", "running", "succeeded", "failed", "cancelled", "queued"];
const columns = [
  { id: "state", title: "State", cell: (run) => html`<${State} state=${run.state} />` },
  {
    id: "id",
    title: "Run",
    cell: (run) => html`
      <a class="mono" href=${href(`/runs/${part(run.id)}`)}>${shortId(run.id)}</a>
      ${run.key && html` <span class="dim">${run.key}</span>`}
    `,
  },
  {
    id: "error",
    title: "Error",
    from: /** @type {const} */ ("tablet"),
    cell: (run) => html`<div class="clip dim">${run.error}</div>`,
  },
  {
    id: "version",
    title: "Version",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("tablet"),
    cell: (run) => run.version,
  },
  {
    id: "took",
    title: "Took",
    align: /** @type {const} */ ("right"),
    cell: (run) => html`<${Took} from=${run.started_at} to=${run.ended_at} />`,
  },
  {
    id: "made",
    title: "Created",
    align: /** @type {const} */ ("right"),
    cell: (run) => html`<${When} at=${run.created_at} />`,
  },
];

function Runs({ dag }) {
  const state = place.value.query.state || "";
  const list = useList("/runs", {
    query: { dag: dag.name, state },
    live: (changes) => Boolean(changes.runs?.length || changes.is_partial),
  });
  const filter = html`
    <div class="choice" role="group" aria-label="Filter by state">
      ${STATES.map(
        (one) => html`
          <button key=${one} aria-pressed=${state === one} onClick=${() => setQuery({ state: one })}>
            ${one || "all"}
          </button>
        `,
      )}
    </div>
  `;
  return html`
    <div class="stack">
      <div class="row spread scroll-x">
        ${filter}
        ${list.fresh > 0 && html`
          <button onClick=${list.showFresh}><${Icon} name="arrow-up" />${many(list.fresh, "new run")}</button>
        `}
      </div>
      ${list.isLoading
        ? html`<${Loading} />`
        : list.problem && !list.items.length
          ? html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`
          : !list.items.length && !state
            ? html`<${NoRuns} dag=${dag} onStart=${null} />`
            : html`
                <${Panel} label="Runs">
                  ${list.items.length
                    ? html`
                        <${Table}
                          label="Runs"
                          columns=${columns}
                          rows=${list.items}
                          hrefOf=${(run) => href(`/runs/${part(run.id)}`)}
                        />
                      `
                    : html`<${Empty} icon="search" title="No runs in state ${state}" />`}
                  <${More} list=${list} />
                </${Panel}>
              `}
    </div>
  `;
}

function Source({ dag }) {
  const { data, problem } = useResource(`/dags/${part(dag.name)}/source`, { query: { version: dag.version } });
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  return html`
    <div class="stack">
      <p class="dim">Version ${data.version}, as a definition file with all defaults.</p>
      <${Code} text=${data.text} language="yaml" />
    </div>
  `;
}
