// The command palette (Ctrl-K): go to pages, and search dags, runs, schedules and jobs.

import { html, useEffect, useRef, useState } from "../vendor/core.js";
import { get } from "../lib/api.js";
import { word } from "../lib/query.js";
import { go } from "../lib/router.js";
import { shortId } from "../lib/format.js";
import { ROUTES } from "../routes.js";
import { Icon } from "./icon.js";
import { Sign } from "./state-badge.js";

const WAIT_MS = 120;
const LONGEST = 500; // maximum length of a search
const NOTHING = { jobs: [] };

/** @param {any} found @param {string} text */
function hits(found, text) {
  const named = (names, icon, kind, path) =>
    (names || []).map((name) => ({ icon, label: name, kind, run: () => go(`${path}/${encodeURIComponent(name)}`) }));
  return [
    ...named(found.schedules, "calendar-clock", "schedule", "/schedules"),
    ...named(found.dags, "workflow", "dag", "/dags"),
    ...named(found.hooks, "webhook", "hook", "/hooks"),
    ...(found.queues || []).map((name) => ({
      icon: "layers-2",
      label: name,
      kind: "queue",
      run: () => go("/jobs", { q: word("queue", name) }),
    })),
    ...(found.tasks || []).map((name) => ({
      icon: "code",
      label: name,
      kind: "task",
      run: () => go("/jobs", { q: word("task", name) }),
    })),
    ...(found.workers || []).map((one) => ({
      icon: "server",
      label: one.host || one.id,
      more: one.id,
      kind: "worker",
      run: () => go(`/workers/${encodeURIComponent(one.id)}`),
    })),
    ...(found.runs || []).map((one) => ({
      state: one.state,
      label: `${one.dag} ${shortId(one.id)}`,
      kind: "run",
      run: () => go(`/runs/${one.id}`),
    })),
    ...found.jobs.map((job) => ({
      state: job.state,
      label: `${job.task} ${shortId(job.id)}`,
      more: job.error || job.key,
      kind: "job",
      run: () => go(`/jobs/${job.id}`),
    })),
    { icon: "search", label: `Jobs with “${text}”`, kind: "search", run: () => go("/jobs", { q: text }) },
  ];
}

/** @param {{onClose: () => void}} props */
export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState({ text: "", items: /** @type {any[]} */ ([]) });
  const [at, setAt] = useState(0);
  const hurried = useRef(false); // Enter was pressed before the results arrived
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    box.current.showModal();
    const dialog = box.current;
    return () => dialog.close();
  }, []);
  useEffect(() => {
    setAt(0);
    const asked = text.trim().slice(0, LONGEST);
    if (!asked) return setFound({ text: "", items: [] });
    const gone = new AbortController();
    const waits = setTimeout(async () => {
      const told = await get("/search", { q: asked, limit: 8 }, gone.signal).catch(() => NOTHING);
      if (!gone.signal.aborted) setFound({ text: asked, items: hits(told, asked) });
    }, WAIT_MS);
    return () => {
      clearTimeout(waits);
      gone.abort();
    };
  }, [text]);
  const pages = ROUTES.filter((route) => route.nav && route.title.toLowerCase().includes(text.trim().toLowerCase()));
  const isTold = found.text === text.trim().slice(0, LONGEST);
  const items = [
    ...pages.map((route) => ({ icon: route.nav.icon, label: route.title, kind: "page", run: () => go(route.path) })),
    ...(text.trim() ? found.items : []),
  ];
  const type = (event) => {
    hurried.current = false;
    setText(event.target.value);
  };
  const choose = (item) => {
    onClose();
    item?.run();
  };
  useEffect(() => {
    if (isTold && hurried.current) choose(items[at]);
  }, [isTold]);
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && items.length) setAt((at + step + items.length) % items.length);
    else if (event.key === "Enter" && at >= pages.length && !isTold) {
      hurried.current = true;
    } // the displayed results are of another search
    else if (event.key === "Enter") choose(items[at]);
    else return;
    event.preventDefault();
  };
  return html`
    <dialog
      ref=${box}
      class="palette"
      aria-label="Search"
      onCancel=${(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown=${(event) => event.target === box.current && onClose()}
    >
      <div class="palette-box" onKeyDown=${press}>
        <label>
          <${Icon} name="search" />
          <input
            autofocus
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-items"
            aria-activedescendant=${items.length ? `palette-${at}` : undefined}
            placeholder="Page, job id, task, key, words of an error"
            value=${text}
            onInput=${type}
          />
        </label>
        <ul id="palette-items" role="listbox" aria-label="Results">
          ${items.map(
            (item, index) => html`
              <li
                id="palette-${index}"
                role="option"
                aria-selected=${index === at}
                onMouseMove=${() => at !== index && setAt(index)}
                onClick=${() => choose(item)}
              >
                ${item.state ? html`<${Sign} state=${item.state} />` : html`<${Icon} name=${item.icon} />`}
                <span>${item.label}</span>
                ${item.more && html`<span class="dim clip">${item.more}</span>`}
                <span class="kind">${item.kind}</span>
              </li>
            `,
          )}
        </ul>
      </div>
    </dialog>
  `;
}
