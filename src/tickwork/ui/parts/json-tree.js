// JSON as a collapsible tree or as text. Long texts and lists are cut until the user expands them.

import { html, useState } from "../vendor/core.js";
import { count } from "../lib/format.js";
import { stringify } from "../lib/lossless-json.js";
import { CopyButton } from "./copy-button.js";
import { Code } from "./highlighted-code.js";

const ITEMS = 100;
const TEXT = 400;
const OPEN_DEPTH = 2;

/** @param {{value: any, label?: string}} props */
export function Tree({ value, label = "value" }) {
  const [isRaw, setRaw] = useState(false);
  const text = stringify(value, 2) ?? "null";
  return html`
    <div class="tree">
      <div class="tree-tools">
        <button class="link" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>
          ${isRaw ? "as a tree" : "as text"}
        </button>
        <${CopyButton} text=${text} label="Copy ${label} as JSON" />
      </div>
      ${isRaw
        ? html`<${Code} text=${text} language="json" copy=${false} />`
        : html`<div class="tree-body"><${Node} value=${value} depth=${0} /></div>`}
    </div>
  `;
}

function Node({ name, value, depth }) {
  const key = name !== undefined && html`<span class="tree-key">${name}</span>`;
  if (value === null || typeof value !== "object") {
    return html`<div class="tree-line">${key}<${Leaf} value=${value} /></div>`;
  }
  return html`<${Branch} name=${key} value=${value} depth=${depth} />`;
}

function Branch({ name, value, depth }) {
  const isList = Array.isArray(value);
  const entries = isList ? value.map((one, at) => [at, one]) : Object.entries(value);
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && entries.length <= ITEMS);
  const [shown, setShown] = useState(ITEMS);
  if (!entries.length) {
    return html`<div class="tree-line">${name}<span class="dim">${isList ? "[]" : "{}"}</span></div>`;
  }
  const summary = isList
    ? `[${count(entries.length)}]`
    : `{${Object.keys(value).slice(0, 3).join(", ")}${entries.length > 3 ? ", …" : ""}}`;
  return html`
    <details class="tree-branch" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        ${name}
        <span class="dim">
          ${isOpen ? (isList ? `[${count(entries.length)}]` : `{${count(entries.length)}}`) : summary}
        </span>
      </summary>
      ${isOpen &&
      entries
        .slice(0, shown)
        .map(([key, one]) => html`<${Node} key=${key} name=${String(key)} value=${one} depth=${depth + 1} />`)}
      ${isOpen && entries.length > shown && html`
        <button class="link" onClick=${() => setShown(shown + ITEMS * 10)}>
          ${count(entries.length - shown)} more
        </button>
      `}
    </details>
  `;
}

function Leaf({ value }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== "string") {
    return html`
      <span class="tree-${value === null ? "null" : typeof value === "bigint" ? "number" : typeof value}">
        ${String(value)}
      </span>
    `;
  }
  const isLong = value.length > TEXT && !isWhole;
  return html`
    <span class="tree-string">"${isLong ? value.slice(0, TEXT) : value}${isLong ? "…" : '"'}</span>
    ${isLong && html`
      <button class="link" onClick=${() => setWhole(true)}>${count(value.length - TEXT)} more characters</button>
    `}
  `;
}
