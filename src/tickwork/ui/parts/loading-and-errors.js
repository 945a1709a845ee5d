// Notices in place of content: loading, empty and error states.

import { html } from "../vendor/core.js";
import { TEXTS } from "../texts/common.js";
import { Code } from "./highlighted-code.js";
import { Icon } from "./icon.js";

export function Loading() {
  return html`<div class="loading" role="status" aria-label="Loading"><span></span><span></span><span></span></div>`;
}

const SAID = {
  "-2": [TEXTS.faultTitle, TEXTS.faultText],
  "-1": [TEXTS.notLoadedTitle, TEXTS.notLoadedText],
  0: [TEXTS.unreachableTitle, TEXTS.unreachableText],
  403: [TEXTS.forbiddenTitle, TEXTS.forbiddenText],
  404: [TEXTS.missingTitle, TEXTS.missingText],
};

/** An error with a remedy. @param {{problem: any, onRetry?: () => void}} props */
export function Trouble({ problem, onRetry }) {
  const [title, next] = SAID[problem.status] || [TEXTS.failedTitle, TEXTS.failedText];
  return html`
    <div class="empty" role="alert">
      <${Icon} name="triangle-alert" class="large" />
      <h2>${title}</h2>
      <p>${problem.message}</p>
      <p class="dim">${next}</p>
      ${onRetry && html`<button onClick=${onRetry}><${Icon} name="refresh-cw" />Retry</button>`}
    </div>
  `;
}

/**
 * An empty state, with code that shows how to begin.
 * @param {{icon: string, title: string, children?: any, code?: string, language?: string}} props
 */
export function Empty({ icon, title, children, code, language = "python" }) {
  return html`
    <div class="empty">
      <${Icon} name=${icon} class="large" />
      <h2>${title}</h2>
      ${children && html`<p class="dim">${children}</p>`}
      ${code && html`<${Code} text=${code} language=${language} />`}
    </div>
  `;
}

/** A sentence above the content that it is about. @param {{tone?: string, icon?: string, children: any}} props */
export function Notice({ tone = "run", icon = "info", children }) {
  return html`<div class="notice" data-tone=${tone}><${Icon} name=${icon} /><div>${children}</div></div>`;
}
