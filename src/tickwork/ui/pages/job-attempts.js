// The attempts of a job, newest first: worker, time, duration and end of each.

import { html, useEffect, useRef, useState } from "../vendor/core.js";
import { part } from "../lib/api.js";
import { shortId } from "../lib/format.js";
import { href, place, setQuery } from "../lib/router.js";
import { readTraceback } from "../lib/traceback.js";
import { TEXTS } from "../texts/jobs.js";
import { Icon } from "../parts/icon.js";
import { Empty } from "../parts/loading-and-errors.js";
import { State } from "../parts/state-badge.js";
import { Traceback } from "../parts/traceback.js";
import { Moment, Took } from "../parts/relative-time.js";
import { ErrorLine } from "./jobs-columns.js";

/** The essential line of an error: the last line of a traceback. @param {string} error */
function headline(error) {
  const raised = readTraceback(error.trimEnd());
  return raised ? raised[0].error.split("\n")[0] : error.trimEnd().split("\n").at(-1);
}

/** @param {{job: any, attempts: any[], hasMore: boolean, onMore: () => void}} props */
export function Attempts({ job, attempts, hasMore, onMore }) {
  if (!attempts.length) {
    return html`
      <${Empty} icon="hourglass" title="No attempts yet">
        ${job.ended_at ? TEXTS.neverStarted : TEXTS.attemptsAppearHere}
      </${Empty}>
    `;
  }
  const asked = Number(place.value.query.attempt) || null;
  const newest = attempts.at(-1).number;
  return html`
    <ol class="attempts">
      ${hasMore && html`<li class="inner"><button class="link" onClick=${onMore}>More attempts</button></li>`}
      ${[...attempts]
        .reverse()
        .map(
          (one) => html`
            <${Attempt}
              key=${one.number}
              one=${one}
              isOpen=${one.number === (asked || newest)}
              isAsked=${one.number === asked}
            />
          `,
        )}
    </ol>
  `;
}

function Attempt({ one, isOpen, isAsked }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [isShown, setShown] = useState(isOpen);
  useEffect(() => setShown(isOpen), [isOpen]);
  useEffect(() => {
    if (isAsked) box.current.scrollIntoView({ block: "nearest" });
  }, [isAsked]);
  const toLog = (event) => {
    event.preventDefault();
    setQuery({ tab: "logs", attempt: one.number }, { push: true });
  };
  const said = html`
    <${State} state=${one.state} />
    <b class="num">#${one.number}</b>
    ${one.error && html`<span class="clip note-error"><${ErrorLine} text=${headline(one.error)} /></span>`}
  `;
  return html`
    <li ref=${box} class="attempt">
      <div class="attempt-head">
        ${one.error
          ? html`
              <button class="attempt-said" aria-expanded=${isShown} onClick=${() => setShown(!isShown)}>
                ${said}
                <${Icon} name=${isShown ? "chevron-down" : "chevron-right"} class="small" />
              </button>
            `
          : html`<span class="attempt-said">${said}</span>`}
        <span class="attempt-facts">
          ${one.worker && html`
            <a class="mono" title="Worker ${one.worker}" href=${href(`/workers/${part(one.worker)}`)}>
              <${Icon} name="server" class="small" />
              ${shortId(one.worker)}
            </a>
          `}
          <span class="dim"><${Moment} at=${one.started_at} /></span>
          <${Took} from=${one.started_at} to=${one.ended_at} />
          <a href=${href(place.value.path, { tab: "logs", attempt: one.number })} onClick=${toLog}>Log</a>
        </span>
      </div>
      ${one.error && isShown && html`<div class="inner"><${Traceback} text=${one.error} /></div>`}
    </li>
  `;
}
