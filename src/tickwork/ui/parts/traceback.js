// A Python traceback with the user's own frames first and library frames collapsed.

import { html, useState } from "../vendor/core.js";
import { many } from "../lib/format.js";
import { grouped, readTraceback, shortPath } from "../lib/traceback.js";
import { Code } from "./highlighted-code.js";
import { CopyButton } from "./copy-button.js";

/** @param {{text: string}} props */
export function Traceback({ text }) {
  const [isRaw, setRaw] = useState(false);
  const raised = readTraceback(text.trimEnd());
  if (!raised) return html`<${Code} text=${text} language="text" wrap />`;
  const [last, ...before] = raised;
  return html`
    <div class="traceback">
      <div class="traceback-tools">
        <button class="link" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>
          ${isRaw ? "readable" : "as text"}
        </button>
        <${CopyButton} text=${text} label="Copy traceback" />
      </div>
      ${isRaw
        ? html`<${Code} text=${text} language="text" copy=${false} />`
        : html`
            <${Said} raised=${last} />
            <${Frames} frames=${last.frames} />
            ${before.map(
              (one) => html`
                <details class="traceback-cause">
                  <summary>It ${one.because || "followed"}: <${ErrorName} raised=${one} /></summary>
                  <${Frames} frames=${one.frames} />
                </details>
              `,
            )}
          `}
    </div>
  `;
}

const ErrorName = ({ raised }) => html`<b>${raised.kind}</b>${raised.says && `: ${raised.says.split("\n")[0]}`}`;

function Said({ raised }) {
  return html`
    <p class="traceback-error"><b>${raised.kind || "Error"}</b>${raised.says && html`<span>${raised.says}</span>`}</p>
  `;
}

function Frames({ frames }) {
  const groups = grouped(frames);
  const hasOwn = groups.some((group) => group.isOwn);
  return html`
    <ol class="frames">
      ${groups.map((group, at) =>
        group.isOwn || (!hasOwn && at === groups.length - 1)
          ? group.frames.map((frame) => html`<${One} frame=${frame} />`)
          : html`
              <li>
                <details>
                  <summary class="dim">${many(group.frames.length, "frame")} in libraries</summary>
                  <ol class="frames">${group.frames.map((frame) => html`<${One} frame=${frame} />`)}</ol>
                </details>
              </li>
            `,
      )}
    </ol>
  `;
}

function One({ frame }) {
  return html`
    <li class=${frame.isOwn ? "own" : ""}>
      <div class="frame-place">
        <b>${frame.name || "top level"}</b>
        <span class="mono dim" title=${frame.file}>${shortPath(frame.file)}:${frame.line}</span>
      </div>
      ${frame.code.length > 0 && html`<pre>${frame.code.join("\n")}</pre>`}
    </li>
  `;
}
