// The page of a schedule: next times, occurrences and their outcomes, and all actions.

import { html, useState } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { part, post, remove } from "../lib/api.js";
import { useList, useResource } from "../lib/data.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { word } from "../lib/query.js";
import { go, href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { duration } from "../lib/time.js";
import { TEXTS } from "../texts/schedules.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { Occurrences } from "../parts/rule-input.js";
import { ask } from "../parts/dialog.js";
import { HeatMap } from "../parts/heatmap.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Page, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { More, Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { Tree } from "../parts/json-tree.js";
import { Moment, When } from "../parts/relative-time.js";
import { Backfill } from "./schedule-backfill.js";
import { ScheduleForm, forEdit } from "./schedule-form.js";
import { Last, PauseDialog, ruleOf, runNow, startsOf } from "./schedules.js";

const OWNERS = { code: "Code", file: "File", api: "UI or API" };
const BECAME = {
  start: "started",
  skip: "not started",
  queue: "waiting for the active run",
  cancel_older: "waiting for the active run to be cancelled",
};
const columns = (isRun) => [
  { id: "due", title: "Due", cell: (one) => html`<${Moment} at=${one.due_at} />` },
  {
    id: "action",
    title: "Outcome",
    cell: (one) => html`
      <span>${BECAME[one.action] || one.action}${one.is_catchup ? " later, catch-up" : ""}</span>
      ${one.reason && html`<div class="dim small">${one.reason}</div>`}
    `,
  },
  {
    id: "fired",
    title: "Evaluated",
    from: /** @type {const} */ ("phone"),
    cell: (one) => html`<${When} at=${one.fired_at} />`,
  },
  {
    id: "late",
    title: "Delay",
    align: /** @type {const} */ ("right"),
    from: /** @type {const} */ ("phone"),
    cell: (one) => duration(Math.max(0, (Date.parse(one.fired_at) - Date.parse(one.due_at)) / 1000)),
  },
  {
    id: "job",
    title: "Job",
    cell: (one) =>
      one.job_id && html`
        <a class="mono link" href=${href(`/${isRun ? "runs" : "jobs"}/${one.job_id}`)}>…${one.job_id.slice(-8)}</a>
      `,
  },
];

/** @param {{params: {name: string}}} props */
export default function OneSchedule({ params: { name } }) {
  const path = `/schedules/${part(name)}`;
  const { data: one, problem, isLoading, refresh } = useResource(path, { live: onAny(onTopics("schedules"), onJobs) });
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const close = () => setOpen(null);
  if (isLoading) return html`<${Loading} />`;
  if (problem && !one) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const done = () => refresh();
  return html`
    <${Page}
      name=${name}
      trail=${[{ label: "Schedules", href: href("/schedules") }]}
      title=${html`${name} <${State} state=${one.state} />`}
      lead=${html`<span><code>${ruleOf(one.spec)}</code></span><span>${one.explanation}</span>`}
      actions=${html`<${Actions} one=${one} setOpen=${setOpen} refresh=${refresh} />`}
    >
      ${one.spec.description && html`<p>${one.spec.description}</p>`}
      ${one.state === "paused" && html`
        <${Notice} tone="warn" icon="circle-pause">
          Paused <${When} at=${one.paused_at} /> by ${one.paused_by || "an unknown user"}
          ${one.paused_why ? `: ${one.paused_why}` : ""}.${" "}
          ${one.paused_until
            ? html`Resumes <${When} at=${one.paused_until} zone=${one.zone} />.`
            : "It stays paused until it is resumed."}
        </${Notice}>
      `}
      ${one.state === "troubled" && html`<${Notice} tone="bad" icon="circle-x">${TEXTS.calendarMissing}</${Notice}>`}
      <div class="sched-grid">
        <${Panel} title="Next" actions=${html`<span class="dim small">${one.zone}</span>`}>
          <${Next} path=${path} zone=${one.zone} due=${one.next_due_at} />
        </${Panel}>
        <div class="stack wide-gap">
          <${Panel} label="Facts">
            <${Facts}
              items=${[
                [
                  "Starts",
                  html`
                    <a class="link" href=${href("/jobs", { q: word("task", startsOf(one.spec)) })}>
                      ${startsOf(one.spec)}
                    </a>
                  `,
                ],
                ["Last", html`<${Last} last=${one.last} zone=${one.zone} />`],
                ["Avg duration", one.average_s === null ? null : duration(one.average_s)],
                ["Runs", one.run_count.toLocaleString("en")],
                ["Active runs", one.live_count || null],
                ["Catch-up", one.spec.catchup || "latest"],
                ["Overlap", one.spec.overlap || "skip"],
                ["Jitter", one.spec.jitter],
                ["Calendars", [one.spec.calendars || []].flat().map(String).join(", ")],
                ["Managed in", one.owner === "file" ? one.source : OWNERS[one.owner]],
                ["Edited", html`<${When} at=${one.edited_at} />`],
              ]}
            />
          </${Panel}>
          ${one.spec.args && html`
            <${Panel} title="Arguments">
              <div class="inner"><${Tree} value=${one.spec.args} label="arguments" /></div>
            </${Panel}>
          `}
        </div>
      </div>
      <${Days} path=${path} />
      <${Fires} path=${path} isRun=${Boolean(one.last?.is_run)} />
      ${open?.kind === "pause" && html`<${PauseDialog} name=${name} onClose=${close} onDone=${done} />`}
      ${open?.kind === "edit" && html`
        <${ScheduleForm} one=${open.one} etag=${open.etag} onClose=${close} onDone=${done} />
      `}
      ${open?.kind === "backfill" && html`<${Backfill} name=${name} zone=${one.zone} onClose=${close} />`}
    </${Page}>
  `;
}

function Actions({ one, setOpen, refresh }) {
  const path = `/schedules/${part(one.name)}`;
  const copies = html`
    <${CopyAs}
      forms=${{
        cli: `tickwork schedules run ${quoted(one.name)}`,
        curl: curl("POST", `${path}/trigger`),
        python: `app.schedules[${JSON.stringify(one.name)}].run()`,
      }}
    />
  `;
  if (!may("operate")) return copies;
  const edit = async () => {
    const found = await attempt(() => forEdit(one.name));
    if (found) setOpen({ kind: "edit", ...found });
  };
  const drop = async () => {
    const text = one.owner === "code" ? TEXTS.deleteDeclaredText : TEXTS.deleteScheduleText;
    if (await ask({ title: `Delete ${one.name}?`, text, does: "Delete", isBad: true })) {
      if ((await attempt(() => remove(path), TEXTS.scheduleDeleted(one.name))) !== undefined) go("/schedules");
    }
  };
  return html`
    <button class="main" onClick=${() => runNow(one.name)}><${Icon} name="play" />Run now</button>
    ${one.state === "paused"
      ? html`
          <button onClick=${() => attempt(() => post(`${path}/resume`).then(refresh), TEXTS.scheduleResumed(one.name))}>
            <${Icon} name="circle-play" />Resume
          </button>
        `
      : html`<button onClick=${() => setOpen({ kind: "pause" })}><${Icon} name="pause" />Pause</button>`}
    <button onClick=${() => setOpen({ kind: "backfill" })}><${Icon} name="history" />Backfill</button>
    ${copies}
    <${Menu}
      icon="ellipsis"
      title="More"
      class="icon-only"
      align="right"
      items=${[
        { label: "Edit", icon: "pencil", run: edit },
        { label: "Copy as JSON definition", icon: "clipboard-copy", run: () => copyFile(one) },
        "line",
        { label: "Delete", icon: "trash-2", isBad: true, run: drop },
      ]}
    />
  `;
}

async function copyFile(one) {
  const { copy } = await import("../parts/copy-button.js");
  await attempt(() => copy(stringify({ schedules: { [one.name]: one.spec } }, 2)), TEXTS.definitionCopied);
}

function Next({ path, zone, due }) {
  const { data } = useResource(`${path}/next`, {
    query: { n: 10, at: undefined },
    every: 30,
    live: onTopics("schedules"),
  });
  return html`
    <div class="inner" data-due=${due}>
      ${data ? html`<${Occurrences} items=${data.items} zone=${zone} />` : html`<${Loading} />`}
    </div>
  `;
}

function Days({ path }) {
  const { data } = useResource(`${path}/days`, { query: { weeks: 26 }, every: 60 });
  if (!data) return null;
  const chosen = place.value.query.day;
  return html`
    <${Panel}
      title="Last 6 months"
      actions=${data.is_partial && html`<span class="dim small">older days are not included</span>`}
    >
      <div class="inner">
        <${HeatMap}
          days=${data}
          chosen=${chosen}
          onChoose=${(day) => setQuery({ day: day === chosen ? undefined : day })}
        />
      </div>
    </${Panel}>
  `;
}

const nextDay = (day) => new Date(Date.parse(day) + 2 * 86_400_000).toISOString();

function Fires({ path, isRun }) {
  const day = place.value.query.day;
  const list = useList(`${path}/fires`, {
    idOf: (one) => one.due_at,
    live: onTopics("schedules"),
    query: day ? { cursor: nextDay(day) } : {},
  });
  const rows = day ? list.items.filter((one) => one.due_at.slice(0, 10) === day) : list.items;
  const actions =
    day && html`<button onClick=${() => setQuery({ day: undefined })}><${Icon} name="x" />only ${day}</button>`;
  return html`
    <${Panel}
      title="Occurrences"
      actions=${actions || list.fresh > 0 && html`<button onClick=${list.showFresh}>${list.fresh} new</button>`}
    >
      ${rows.length
        ? html`
            <${Table} label="Occurrences" columns=${columns(isRun)} rows=${rows} idOf=${(one) => one.due_at}>
              <${More} list=${list} />
            </${Table}>
          `
        : list.isLoading
          ? html`<${Loading} />`
          : html`<${Empty} icon="history" title="No occurrences yet">${TEXTS.occurrencesAppearHere}</${Empty}>`}
    </${Panel}>
  `;
}
