// The layout of a page: breadcrumb, title, actions, panels and lists of facts.

import { html, useEffect } from "../vendor/core.js";
import { Icon } from "./icon.js";

/**
 * @param {{title: any, name?: string, lead?: any, actions?: any, children?: any, trail?: {label: string, href:
 *   string}[]}} props
 */
export function Page({ title, name, lead, actions, children, trail = [] }) {
  const said = name || (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = said ? `${said} · Tickwork` : "Tickwork";
  }, [said]);
  return html`
    <div class="page">
      <header class="page-head">
        <div class="page-title">
          ${trail.length > 0 && html`
            <nav class="trail" aria-label="Breadcrumb">
              ${trail.map(
                (one) => html`<a href=${one.href}>${one.label}</a><${Icon} name="chevron-right" class="small" />`,
              )}
            </nav>
          `}
          <h1>${title}</h1>
          ${lead && html`<div class="lead">${lead}</div>`}
        </div>
        ${actions && html`<div class="actions">${actions}</div>`}
      </header>
      ${children}
    </div>
  `;
}

/**
 * A section of a page with a heading.
 * @param {{title?: any, actions?: any, children: any, class?: string, label?: string}} props
 */
export function Panel({ title, actions, children, class: more = "", label }) {
  return html`
    <section class="panel ${more}" aria-label=${label || (typeof title === "string" ? title : undefined)}>
      ${title && html`<header><h2>${title}</h2>${actions}</header>`}
      ${children}
    </section>
  `;
}

/** A list of names and values. @param {{items: [any, any][]}} props */
export function Facts({ items }) {
  return html`
    <dl class="facts">
      ${items
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
  `;
}
