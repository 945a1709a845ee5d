// The page of a job: state and reason, timeline, attempts, log, arguments, result and events.

import { html, useEffect, useState } from "../vendor/core.js";
import { get, part } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { count } from "../lib/format.js";
import { onJob } from "../lib/live.js";
import { word } from "../lib/query.js";
import { href, setQuery } from "../lib/router.js";
import { TEXTS } from "../texts/jobs.js";
import { CopyButton } from "../parts/copy-button.js";
import { Icon } from "../parts/icon.js";
import { Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Page, Panel } from "../parts/page-layout.js";
import { State, toneOf } from "../parts/state-badge.js";
import { chosenTab, Tabs } from "../parts/tabs.js";
import { attempt } from "../parts/toast.js";
import { JobActions } from "./job-actions.js";
import { Attempts } from "./job-attempts.js";
import { Details, Events, Payload, Result } from "./job-details.js";
import { Logs } from "./job-logs.js";
import { Timeline } from "./job-timeline.js";
import { Progress, shownState } from "./jobs-columns.js";

const ATTEMPTS = 100;

/** Load the attempts of a job from the first, and more on request. @param {string} id */
function useAttempts(id) {
  const { data, refresh } = useResource(`/jobs/${part(id)}/attempts`, { query: { limit: ATTEMPTS }, live: onJob(id) });
  const [later, setLater] = useState({
    items: /** @type {any[]} */ ([]),
    next: /** @type {number | null | undefined} */ (undefined),
  });
  const next = later.next === undefined ? (data?.next_cursor ?? null) : later.next;
  const more = () =>
    attempt(async () => {
      const page = await get(`/jobs/${part(id)}/attempts`, { limit: ATTEMPTS, cursor: next });
      setLater({ items: [...later.items, ...page.items], next: page.next_cursor });
    });
  return { attempts: data ? [...data.items, ...later.items] : null, hasMore: next !== null, more, refresh };
}

/** @param {{params: {id: string}}} props */
export default function Job({ params: { id } }) {
  const { data: job, problem, isLoading, refresh } = useResource(`/jobs/${part(id)}`, { live: onJob(id), every: 5 });
  const tried = useAttempts(id);
  useEffect(() => void (job && tried.refresh()), [job?.state, job?.attempt]);
  if (isLoading) return html`<${Loading} />`;
  if (problem && !job) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const tabs = [
    { id: "attempts", label: "Attempts", count: job.attempt ? count(job.attempt) : undefined },
    { id: "logs", label: "Log" },
    { id: "payload", label: "Arguments" },
    { id: "result", label: "Result" },
    { id: "details", label: "Details" },
    { id: "events", label: "Events" },
  ];
  const tab = chosenTab(tabs);
  const showAttempt = (number) => setQuery({ tab: undefined, attempt: number });
  return html`
    <${Page}
      name="${job.task} ${id.slice(-8)}"
      trail=${[{ label: "Jobs", href: "#/jobs" }]}
      title=${html`${job.task}<${State} state=${shownState(job)} />`}
      lead=${html`<${Lead} job=${job} />`}
      actions=${html`<${JobActions} job=${job} onChanged=${refresh} />`}
    >
      <${Why} job=${job} />
      <${Panel} label="Timeline">
        ${job.progress !== null && html`<div class="job-progress"><${Progress} job=${job} /></div>`}
        <${Timeline} job=${job} attempts=${tried.attempts || []} onAttempt=${showAttempt} />
      </${Panel}>
      <section class="panel" aria-label="About this job">
        <${Tabs} tabs=${tabs} label="About this job" />
        ${tab === "attempts" &&
        (tried.attempts
          ? html`<${Attempts} job=${job} attempts=${tried.attempts} hasMore=${tried.hasMore} onMore=${tried.more} />`
          : html`<${Loading} />`)}
        ${tab === "logs" && html`<${Logs} job=${job} />`}
        ${tab === "payload" && html`<${Payload} job=${job} />`}
        ${tab === "result" && html`<${Result} job=${job} />`}
        ${tab === "details" && html`<${Details} job=${job} />`}
        ${tab === "events" && html`<${Events} job=${job} />`}
      </section>
    </${Page}>
  `;
}

function Lead({ job }) {
  return html`
    <span class="mono job-id">${job.id}<${CopyButton} text=${job.id} label="Copy id" /></span>
    <a href=${href("/jobs", { q: word("queue", job.queue) })}><${Icon} name="layers-2" class="small" /> ${job.queue}</a>
    ${job.key && html`<span><${Icon} name="key-round" class="small" /> ${job.key}</span>`}
    ${job.tenant && html`<span><${Icon} name="user" class="small" /> ${job.tenant}</span>`}
    ${job.labels.map((label) => html`<a class="tag" href=${href("/jobs", { q: word("label", label) })}>${label}</a>`)}
    ${(job.run_id || job.is_run) && html`
      <a class="link" href=${href(`/runs/${part(job.run_id || job.id)}`)}>
        <${Icon} name="workflow" class="small" />${" "}
        ${job.is_run ? "View run" : `step ${job.step} of a run`}
      </a>
    `}
  `;
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/\w$/.test(text) ? "." : ""}`;

/** The reason for the state of a job, if it needs explanation. */
function Why({ job }) {
  if (job.state === "succeeded") return null;
  if (job.state === "running") {
    return job.is_cancel_requested && html`<${Notice} tone="warn" icon="ban">${TEXTS.stillRunning}</${Notice}>`;
  }
  return html`
    <${Notice} tone=${toneOf(shownState(job))} icon=${job.state === "failed" ? "circle-x" : "info"}>
      ${sentence(job.why)}
    </${Notice}>
  `;
}
