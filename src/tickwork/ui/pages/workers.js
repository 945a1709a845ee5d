// Workers: who works, on what, and how to have one claim nothing, stop, or go on.

import { html } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { ask } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/notices.js";
import { Page, Panel } from "../parts/page.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";
import { When } from "../parts/when.js";

const CODE = `# shop.py
from tickwork import Tickwork

app = Tickwork()

@app.task
def send_email(to: str) -> None: ...

# and in a shell:  tickwork worker shop.py`;

/** Ask a worker for something, and say what comes of it. @param {any} worker @param {"quiet"|"stop"|"resume"} what */
export async function askWorker(worker, what) {
  const said = { quiet: "claims nothing more; what runs goes on", stop: "finishes what runs, and ends", resume: "claims again" }[what];
  if (what === "stop" && !(await ask({ title: `Stop ${worker.host}:${worker.pid}?`, text: "It finishes what runs within its grace, and ends. Whatever started it may start it again.", does: "Stop it", isBad: true }))) return;
  await attempt(() => post(`/workers/${part(worker.id)}/${what}`), `${worker.host}:${worker.pid} ${said}, from its next heartbeat on.`);
}

const columns = [
  { id: "state", title: "State", cell: (one) => html`<${State} state=${one.asked === "quiet" && one.state === "working" ? "quiet" : one.state} />` },
  { id: "host", title: "Worker", cell: (one) => html`<a href=${href(`/workers/${part(one.id)}`)}><b>${one.host}</b> <span class="dim num">${one.pid}</span></a>` },
  { id: "slots", title: "Busy", align: /** @type {const} */ ("right"), cell: (one) => html`${one.running} <span class="dim">of ${one.slots}</span>` },
  { id: "queues", title: "Queues", from: /** @type {const} */ ("phone"), cell: (one) => html`<span class="row">${one.queues.map((name) => html`<span class="tag">${name}</span>`)}</span>` },
  { id: "version", title: "Version", from: /** @type {const} */ ("tablet"), cell: (one) => one.version },
  { id: "up", title: "Up since", from: /** @type {const} */ ("phone"), cell: (one) => html`<${When} at=${one.started_at} />` },
];

function Actions({ worker }) {
  return html`<${Menu} icon="ellipsis" title="Do something with this worker" class="icon-only" align="right" items=${[
    worker.asked ? { label: "Have it claim again", icon: "play", run: () => askWorker(worker, "resume") } : { label: "Have it claim nothing more", icon: "pause", run: () => askWorker(worker, "quiet") },
    { label: "Stop it", icon: "square", isBad: true, run: () => askWorker(worker, "stop") },
  ]} />`;
}

export default function Workers() {
  const { data, problem, isLoading, refresh } = useResource("/workers", { live: onAny(onTopics("workers"), onJobs), every: 10 });
  if (isLoading) return html`<${Loading} />`;
  if (problem && !data) return html`<${Trouble} problem=${problem} onRetry=${refresh} />`;
  const workers = data.items;
  const busy = workers.reduce((sum, one) => sum + one.running, 0);
  const slots = workers.reduce((sum, one) => sum + one.slots, 0);
  const all = may("operate") ? [...columns, { id: "do", title: html`<span class="hidden-label">Actions</span>`, align: /** @type {const} */ ("right"), cell: (one) => html`<${Actions} worker=${one} />` }] : columns;
  return html`<${Page} title="Workers" lead=${workers.length > 0 && html`<span><b class="num">${busy}</b> of ${slots} slots busy</span>`}>
    <${Panel} label="Workers">
      ${workers.length
        ? html`<${Table} label="Workers" columns=${all} rows=${workers} hrefOf=${(one) => href(`/workers/${part(one.id)}`)} />`
        : html`<${Empty} icon="server" title="No worker yet" code=${CODE}>Jobs wait until one starts.</${Empty}>`}
    </${Panel}>
  </${Page}>`;
}
