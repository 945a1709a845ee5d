// What a page says when there is nothing to show: not yet, nothing at all, or nothing because something went wrong.

import { html } from "../vendor/core.js";
import { Code } from "./code.js";
import { Icon } from "./icon.js";

export function Loading() {
  return html`<div class="loading" role="status" aria-label="Loading"><span></span><span></span><span></span></div>`;
}

const SAID = {
  "-2": [
    "This page has a fault",
    "It cannot show what the server told it. Other pages and the command line still work. Please report it, with the console of this browser.",
  ],
  "-1": ["This page could not be loaded", "Reload the page: the address stays the same."],
  0: ["The server does not answer", "It is tried again by itself. Is the server up? tickwork server"],
  403: ["You may not see this", "Ask an administrator of this server for a role that may."],
  404: ["It is not here", "It was never there, or retention has let it go."],
};

/** What went wrong, and what to do. @param {{problem: any, onRetry?: () => void}} props */
export function Trouble({ problem, onRetry }) {
  const [title, next] = SAID[problem.status] || ["That did not work", "Try again; the log of the server knows more."];
  return html`
    <div class="empty" role="alert">
      <${Icon} name="triangle-alert" class="large" />
      <h2>${title}</h2>
      <p>${problem.message}</p>
      <p class="dim">${next}</p>
      ${onRetry && html`<button onClick=${onRetry}><${Icon} name="refresh-cw" />Try again</button>`}
    </div>
  `;
}

/**
 * Nothing here yet, and the code that changes that.
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

/** A sentence that stands above what it is about. @param {{tone?: string, icon?: string, children: any}} props */
export function Notice({ tone = "run", icon = "info", children }) {
  return html`<div class="notice" data-tone=${tone}><${Icon} name=${icon} /><div>${children}</div></div>`;
}
