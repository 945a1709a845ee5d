// The schedules page: a list with next and last runs, the busiest minutes, and calendars.

import { html, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useList } from "../lib/data.js";
import { many } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { duration } from "../lib/time.js";
import { go, href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/schedules.js";
import { FormDialog } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Page, Panel } from "../parts/page-layout.js";
import { Sign, State } from "../parts/state-badge.js";
import { More, Table } from "../parts/table.js";
import { Tabs, chosenTab } from "../parts/tabs.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { Calendars } from "./schedules-calendars.js";
import { Density } from "./schedules-busiest-minutes.js";
import { ScheduleForm } from "./schedule-form.js";

const CODE = `from tickwork import Tickwork, cron

app = Tickwork()

@app.task
def report(to: str = "ada") -> None: ...

app.schedule("nightly-report", report, cron("0 2 * * *", tz="Europe/Berlin"))`;
const TABS = [
  { id: "list", label: "Schedules" },
  { id: "day", label: "Next 24 hours" },
  { id: "calendars", label: "Calendars" },
];
const right = /** @type {const} */ ("right");
const [phone, tablet, desk] = /** @type {const} */ (["phone", "tablet", "desk"]);

/** The source text of a rule. @param {any} spec */
export function ruleOf(spec) {
  for (const kind of ["cron", "every", "after", "rrule"]) {
    if (spec[kind]) return kind === "cron" || kind === "rrule" ? spec[kind] : `${kind} ${spec[kind]}`;
  }
  if (spec.at) return `at ${[spec.at].flat().join(", ")}`;
  return spec.any_of ? "any of several rules" : "all of several rules";
}

/** The task or dag of a schedule. @param {any} spec */
export const startsOf = (spec) => spec.task || spec.dag || (spec.shell ? "shell" : "http");

/** Start a schedule now, and offer a link to the job. @param {string} name */
export async function runNow(name) {
  const started = await attempt(() => post(`/schedules/${part(name)}/trigger`));
  if (started) {
    say(TEXTS.scheduleStarted(name), {
      action: {
        label: "View",
        run: () => go(started.url.includes("/runs/") ? `/runs/${started.id}` : `/jobs/${started.id}`),
      },
    });
  }
}

/** @param {{name: string, onClose: () => void, onDone: () => void}} props */
export function PauseDialog({ name, onClose, onDone }) {
  const submit = async (values) => {
    await post(`/schedules/${part(name)}/pause`, { until: values.until, reason: values.reason });
    say(TEXTS.schedulePaused(name, values.until ? ` for ${values.until}` : " until resumed"), {
      action: { label: "Resume", run: () => attempt(() => post(`/schedules/${part(name)}/resume`).then(onDone)) },
    });
    onDone();
  };
  return html`
    <${FormDialog} title="Pause ${name}" does="Pause" onClose=${onClose} onSubmit=${submit}>
      <p>${TEXTS.pauseText}</p>
      <label class="field">
        <span>Duration</span>
        <input name="until" placeholder="until resumed; or 2h, 1d, 2026-12-01T00:00:00Z" autofocus />
      </label>
      <label class="field">
        <span>Reason</span>
        <input name="reason" maxlength="1000" placeholder="shown with the schedule" />
      </label>
    </${FormDialog}>
  `;
}

export default function Schedules() {
  const tab = chosenTab(TABS);
  const [isNew, setNew] = useState(false);
  const actions =
    may("operate") && tab !== "calendars" && html`
      <button class="main" onClick=${() => setNew(true)}><${Icon} name="plus" />New schedule</button>
    `;
  return html`
    <${Page} title="Schedules" actions=${actions}>
      <${Tabs} tabs=${TABS} />
      ${tab === "list" ? html`<${List} />` : tab === "day" ? html`<${Density} />` : html`<${Calendars} />`}
      ${isNew && html`
        <${ScheduleForm} onClose=${() => setNew(false)} onDone=${(name) => go(`/schedules/${part(name)}`)} />
      `}
    </${Page}>
  `;
}

function List() {
  const list = useList("/schedules", {
    idOf: (one) => one.name,
    live: onAny(onTopics("schedules"), onJobs),
    limit: 200,
  });
  const [pausing, setPausing] = useState(/** @type {string | null} */ (null));
  const text = (place.value.query.q || "").toLowerCase();
  const wanted = place.value.query.state || "";
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem && !list.items.length) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  if (!list.items.length) {
    return html`
      <${Panel} label="Schedules">
        <${Empty} icon="calendar-clock" title="No schedules yet" code=${CODE}>${TEXTS.noSchedulesText}</${Empty}>
      </${Panel}>
    `;
  }
  const rows = list.items.filter(
    (one) =>
      (!wanted || isShown(one, wanted)) &&
      `${one.name} ${startsOf(one.spec)} ${one.spec.description || ""}`.toLowerCase().includes(text),
  );
  const counts = (state) => list.items.filter((one) => isShown(one, state)).length;
  return html`
    <div class="row sched-tools">
      <input
        type="search"
        aria-label="Filter schedules"
        placeholder="Filter by name or task"
        value=${place.value.query.q || ""}
        onInput=${(event) => setQuery({ q: event.target.value })}
      />
      <div class="choice" role="group" aria-label="Filter by state">
        ${[
          ["", "All", list.items.length],
          ["active", "Active", counts("active")],
          ["paused", "Paused", counts("paused")],
          ["failing", "Failing", counts("failing")],
        ].map(
          ([id, label, number]) => html`
            <button key=${id} aria-pressed=${wanted === id} onClick=${() => setQuery({ state: id })}>
              ${label}
              <span class="count">${number}</span>
            </button>
          `,
        )}
      </div>
    </div>
    <${Panel} label="Schedules">
      ${list.fresh > 0 && html`
        <button class="fresh-bar" onClick=${list.refresh}>${many(list.fresh, "new schedule")}</button>
      `}
      ${rows.length
        ? html`
            <${Table}
              label="Schedules"
              columns=${columns(setPausing, list.renew)}
              rows=${rows}
              idOf=${(one) => one.name}
              hrefOf=${(one) => href(`/schedules/${part(one.name)}`)}
              rowKeys=${may("operate") ? [{ keys: "r", does: "run schedule now", run: (one) => runNow(one.name) }] : []}
              toneOf=${(one) => (isShown(one, "failing") ? "bad" : undefined)}
            >
              <${More} list=${list} />
            </${Table}>
          `
        : html`
            <${Empty} icon="search" title="No matching schedules">
              ${list.hasMore ? "More schedules are not loaded yet." : TEXTS.clearFilter(list.items.length)}
            </${Empty}>
            <${More} list=${list} />
          `}
    </${Panel}>
    ${pausing && html`<${PauseDialog} name=${pausing} onClose=${() => setPausing(null)} onDone=${list.renew} />`}
  `;
}

const FAILED = ["failed", "expired", "dropped", "cancelled"];
const isShown = (one, state) =>
  state === "failing" ? FAILED.includes(one.last?.state) || one.state === "troubled" : one.state === state;

function columns(setPausing, renew) {
  return [
    { id: "state", title: "State", width: "96px", cell: (one) => html`<${State} state=${one.state} />` },
    {
      id: "name",
      title: "Schedule",
      cell: (one) => html`
        <a href=${href(`/schedules/${part(one.name)}`)}><b>${one.name}</b></a>
        <div class="dim small clip">${startsOf(one.spec)}</div>
      `,
    },
    {
      id: "rule",
      title: "Rule",
      from: phone,
      cell: (one) => html`
        <code>${ruleOf(one.spec)}</code>
        ${one.zone !== "UTC" && html` <span class="dim small">${one.zone}</span>`}
        <div class="dim small clip" title=${one.explanation}>${one.explanation.split(/[;,]/)[0]}</div>
      `,
    },
    {
      id: "next",
      title: "Next",
      cell: (one) =>
        one.state === "paused"
          ? html`
              <span class="dim" title=${one.paused_why || ""}>
                ${one.paused_until ? html`resumes <${When} at=${one.paused_until} />` : "paused"}
              </span>
            `
          : html`<${When} at=${one.next_due_at} zone=${one.zone} none="never" />`,
    },
    { id: "last", title: "Last", cell: (one) => html`<${Last} last=${one.last} zone=${one.zone} />` },
    { id: "average", title: "Avg duration", align: right, from: tablet, cell: (one) => duration(one.average_s) },
    { id: "runs", title: "Runs", align: right, from: desk, cell: (one) => one.run_count.toLocaleString("en") },
    ...(may("operate")
      ? [
          {
            id: "do",
            title: html`<span class="hidden-label">Actions</span>`,
            align: right,
            width: "44px",
            cell: (one) => html`<${RowMenu} one=${one} setPausing=${setPausing} renew=${renew} />`,
          },
        ]
      : []),
  ];
}

/** The outcome of the latest occurrence. @param {{last: any, zone: string}} props */
export function Last({ last, zone }) {
  if (!last) return html`<span class="dim">not yet</span>`;
  const state = last.state || (last.job_id ? "released" : "skipped");
  const label = last.state ? undefined : last.job_id ? "started; pruned" : last.reason || "not started";
  const at = html`<${When} at=${last.due_at} zone=${zone} />`;
  return html`
    <span class="row tight">
      <${Sign} state=${state} label=${label} />
      ${last.job_id && last.state
        ? html`<a href=${href(last.is_run ? `/runs/${last.job_id}` : `/jobs/${last.job_id}`)}>${at}</a>`
        : at}
    </span>
  `;
}

function RowMenu({ one, setPausing, renew }) {
  return html`
    <${Menu}
      icon="ellipsis"
      title="Actions for ${one.name}"
      class="icon-only"
      align="right"
      items=${[
        { label: "Run now", icon: "play", hint: "r", run: () => runNow(one.name) },
        one.state === "paused"
          ? {
              label: "Resume",
              icon: "circle-play",
              run: () =>
                attempt(() => post(`/schedules/${part(one.name)}/resume`).then(renew), TEXTS.scheduleResumed(one.name)),
            }
          : { label: "Pause…", icon: "pause", run: () => setPausing(one.name) },
        { label: "Open", icon: "arrow-right", href: href(`/schedules/${part(one.name)}`) },
      ]}
    />
  `;
}
