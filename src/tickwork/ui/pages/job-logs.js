// The log of a job: loaded page by page, live while the job runs.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/core.js";
import { address, get, part } from "../lib/api.js";
import { count, many } from "../lib/format.js";
import { Lines } from "../lib/log-lines.js";
import { remembered } from "../lib/browser-prefs.js";
import { place, setQuery } from "../lib/router.js";
import { TEXTS } from "../texts/jobs.js";
import { Icon } from "../parts/icon.js";
import { Log } from "../parts/log-view.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { attempt as attempted } from "../parts/toast.js";

const PIECES = 200; // lines per page of the log
const FLUSH_MS = 150; // interval for drawing new output
const AGAIN_MS = 3000;
const LAST = 999_999_999_999_999; // sorts after all chunks of an attempt
const SHARED = "--- output of the process, shared by the attempts in it ---";

const CODE = `from tickwork import current_job

@app.task
def import_file(name: str) -> None:
    print("reading", name)                      # what is printed is kept,
    current_job().logger.info("row %d", 12)     # and what is logged`;

/** Load the log of a job, or of an attempt. @param {string} id @param {number | null} only @param {boolean} isOver */
function useLines(id, only, isOver) {
  const held = useRef({ lines: new Lines(), cursor: only ? `${only - 1}:${LAST}` : undefined, isReading: false });
  const [shown, setShown] = useState({
    version: 0,
    isDone: false,
    isLoaded: false,
    problem: /** @type {any} */ (null),
  });
  const gone = useRef(new AbortController());
  const update = (more = {}) => setShown((now) => ({ ...now, ...more, version: now.version + 1 }));

  const take = (piece) => {
    if (only && piece.attempt > only) return false;
    held.current.lines.add(piece.shared ? { ...piece, text: `${SHARED}\n${piece.text}` } : piece);
    held.current.cursor = `${piece.attempt}:${piece.seq}`;
    return true;
  };
  const read = async (all = false) => {
    if (held.current.isReading) return;
    held.current.isReading = true;
    try {
      let isDone = false;
      do {
        const page = await get(
          `/jobs/${part(id)}/logs`,
          { limit: PIECES, cursor: held.current.cursor },
          gone.current.signal,
        );
        isDone = !page.items.every(take) || !page.next_cursor;
        update({ isDone, isLoaded: true, problem: null });
      } while (all && !isDone);
    } catch (problem) {
      if (problem.name !== "AbortError") update({ problem, isLoaded: true });
    } finally {
      held.current.isReading = false;
    }
  };
  useEffect(() => {
    gone.current = new AbortController();
    const stop = isOver ? (read(), () => {}) : follow(id, held, take, update);
    return () => {
      stop();
      gone.current.abort();
    };
  }, [id, only, isOver]);
  return {
    lines: held.current.lines,
    ...shown,
    more: () => isOver && !shown.isDone && shown.isLoaded && read(),
    all: () => read(true),
  };
}

/** Follow the output of a job until it ends. Returns a function that stops. */
function follow(id, held, take, update) {
  /** @type {EventSource} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let again;
  let isNew = false;
  const open = () => {
    source = new EventSource(address(`/jobs/${part(id)}/logs`, { follow: true, cursor: held.current.cursor }));
    source.addEventListener("log", (event) => void (isNew = take(JSON.parse(event.data)) || isNew));
    source.addEventListener("end", () => {
      source.close();
      update({ isDone: true, isLoaded: true });
    });
    source.onopen = () => update({ isLoaded: true, problem: null });
    source.onerror = () => {
      source.close();
      again = setTimeout(open, AGAIN_MS);
    };
  };
  open();
  const flushes = setInterval(() => {
    if (isNew) update();
    isNew = false;
  }, FLUSH_MS);
  return () => {
    source.close();
    clearTimeout(again);
    clearInterval(flushes);
  };
}

const wraps = remembered("log-wraps", false);
const SHOWN = /** @type {[string, number][]} */ ([
  ["All lines", 0],
  ["Info and above", 2],
  ["Warnings and above", 3],
  ["Errors", 4],
]);

/** @param {{job: any}} props */
export function Logs({ job }) {
  const only = Number(place.value.query.attempt) || null;
  return html`<${Shown} key=${only} job=${job} only=${only} />`;
}

function Shown({ job, only }) {
  const isOver = job.ended_at !== null;
  const [wasOver] = useState(isOver); // a followed log is followed to its end
  const log = useLines(job.id, only, wasOver);
  const [rank, setRank] = useState(0);
  const [needle, setNeedle] = useState("");
  const [hit, setHit] = useState(0);
  const [follows, setFollows] = useState(!isOver);
  const which = useMemo(() => log.lines.which(rank), [rank, log.version]);
  const hits = useMemo(() => (needle ? found(log.lines, which, rank, needle) : []), [needle, which, log.version]);
  if (log.problem && !log.lines.length) return html`<${Trouble} problem=${log.problem} onRetry=${log.all} />`;
  if (!log.isLoaded) return html`<${Loading} />`;
  const hasRanks = log.lines.ranks.some(Boolean);
  const seek = (by) => {
    setFollows(false);
    setHit(hits.length ? (hit + by + hits.length) % hits.length : 0);
  };
  const toEnd = async () => {
    if (wasOver && !log.isDone) await log.all();
    setFollows(true);
  };
  return html`
    <div class="logs">
      <div class="log-tools">
        <${Search}
          needle=${needle}
          onNeedle=${(said) => {
            setNeedle(said);
            setHit(0);
            setFollows(false);
          }}
          hits=${hits}
          hit=${hit}
          onSeek=${seek}
        />
        <${Attempts} job=${job} only=${only} />
        ${hasRanks && html`
          <${Menu}
            icon="list-filter"
            label=${SHOWN.find(([, one]) => one === rank)[0]}
            items=${SHOWN.map(([label, one]) => ({ label, isOn: one === rank, run: () => setRank(one) }))}
          />
        `}
        <span class="log-more">
          <button aria-pressed=${wraps.value} onClick=${() => (wraps.value = !wraps.value)}>Wrap</button>
          ${!log.isDone && !wasOver
            ? html`<button aria-pressed=${follows} onClick=${() => setFollows(!follows)}>Follow</button>`
            : html`<button onClick=${toEnd}><${Icon} name="arrow-down" />End</button>`}
          <button aria-label="Download all lines" title="Download all lines" onClick=${() => download(job, only)}>
            <${Icon} name="download" />
          </button>
        </span>
      </div>
      ${log.lines.length
        ? html`
            <${Log}
              lines=${log.lines}
              version=${log.version}
              which=${which}
              wraps=${wraps.value}
              follows=${follows}
              onFollow=${setFollows}
              needle=${needle}
              goal=${hits.length ? hits[hit] : null}
              onNearEnd=${log.more}
              label="Output of ${job.task}"
            />
          `
        : html`
            <${Empty}
              icon="scroll-text"
              title=${isOver ? "No output" : "No output yet"}
              code=${isOver ? CODE : undefined}
            >
              ${isOver ? TEXTS.noOutputText : TEXTS.outputLive}
            </${Empty}>
          `}
      ${log.lines.length > 0 && html`
        <p class="log-end dim small" role="status">
          ${many(log.lines.length, "line")}
          ${which ? `, ${count(which.length)} shown` : ""}
          ${log.isDone ? "" : wasOver ? "; more below" : "; live"}
          ${needle && wasOver && !log.isDone && html`
            ${" "}
            <button class="link" onClick=${log.all}>Load all to search</button>
          `}
        </p>
      `}
    </div>
  `;
}

/** Indexes of displayed lines that contain a text. */
function found(lines, which, rank, needle) {
  const indexes = lines.which(rank, needle) || [];
  if (!which) return indexes;
  const places = new Map(which.map((index, at) => [index, at]));
  return indexes.map((index) => places.get(index));
}

function Search({ needle, onNeedle, hits, hit, onSeek }) {
  const press = (event) => {
    if (event.key === "Enter") onSeek(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") onNeedle("");
    else return;
    event.preventDefault();
  };
  return html`
    <label class="log-search">
      <${Icon} name="search" />
      <span class="hidden-label">Search</span>
      <input
        type="search"
        placeholder="Search"
        value=${needle}
        onInput=${(event) => onNeedle(event.target.value)}
        onKeyDown=${press}
      />
      ${needle && html`
        <span class="num small dim" role="status">
          ${hits.length ? `${count(hit + 1)} of ${count(hits.length)}` : "none"}
        </span>
        <button class="bare" aria-label="Previous match" disabled=${!hits.length} onClick=${() => onSeek(-1)}>
          <${Icon} name="chevron-up" />
        </button>
        <button class="bare" aria-label="Next match" disabled=${!hits.length} onClick=${() => onSeek(1)}>
          <${Icon} name="chevron-down" />
        </button>
      `}
    </label>
  `;
}

const OFFERED = 50; // at most this number of attempts, the latest

function Attempts({ job, only }) {
  if (job.attempt < 2) return null;
  const numbers = Array.from({ length: Math.min(job.attempt, OFFERED) }, (_, at) => job.attempt - at);
  const items = [
    { label: "All attempts", isOn: only === null, run: () => setQuery({ attempt: undefined }) },
    ...numbers.map((number) => ({
      label: `Attempt ${number}`,
      isOn: number === only,
      run: () => setQuery({ attempt: number }),
    })),
  ];
  return html`<${Menu} icon="repeat" label=${only ? `Attempt ${only}` : "All attempts"} items=${items} />`;
}

/** Download the complete log. */
function download(job, only) {
  return attempted(async () => {
    const texts = [];
    for (let cursor = only ? `${only - 1}:${LAST}` : undefined; cursor !== null;) {
      const page = await get(`/jobs/${part(job.id)}/logs`, { limit: PIECES, cursor });
      const wanted = page.items.filter((piece) => !only || piece.attempt === only);
      texts.push(...wanted.map((piece) => piece.text));
      cursor = wanted.length < page.items.length ? null : page.next_cursor;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(texts, { type: "text/plain" }));
    link.download = `${job.task}-${job.id}${only ? `-attempt-${only}` : ""}.log`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}
