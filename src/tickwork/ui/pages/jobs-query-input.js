// The query input of the jobs page: completes names and values, and explains terms that it cannot parse.

import { html, useEffect, useId, useRef, useState } from "../vendor/core.js";
import { get } from "../lib/api.js";
import { complete } from "../lib/query.js";
import { Icon } from "../parts/icon.js";

const APPLY_MS = 350;
const THINK_MS = 1500; // the same in an unfinished term, as far as possible
const NAMES = 500; // maximum number of suggested names of a kind

/** Names for completions, loaded when the input is first used. @param {boolean} isWanted */
function useNames(isWanted) {
  const [names, setNames] = useState(/** @type {Record<string, string[]>} */ ({}));
  useEffect(() => {
    if (!isWanted) return;
    const learn = (path, query, read) =>
      get(path, query)
        .then((told) => setNames((now) => merged(now, read(told.items))))
        .catch(() => {});
    learn("/queues", {}, (items) => ({ queue: items.map((one) => one.name) }));
    learn("/tasks", { limit: NAMES }, (items) => ({
      task: items.map((one) => one.name),
      queue: items.map((one) => one.queue),
    }));
    learn("/workers", {}, (items) => ({ worker: items.map((one) => one.id) }));
  }, [isWanted]);
  return names;
}

/** @param {Record<string, string[]>} known @param {Record<string, string[]>} more */
function merged(known, more) {
  const joined = Object.entries(more).map(([field, names]) => [
    field,
    [...new Set([...(known[field] || []), ...names])].sort(),
  ]);
  return { ...known, ...Object.fromEntries(joined) };
}

/** @param {{text: string, onChange: (text: string) => void, troubles: import("../lib/query.js").Trouble[]}} props */
export function QueryBox({ text, onChange, troubles }) {
  const [typed, setTyped] = useState(text);
  const [isUsed, setUsed] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const [caret, setCaret] = useState(0);
  const [at, setAt] = useState(-1);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const waits = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const id = useId();
  const names = useNames(isUsed);
  useEffect(() => {
    if (text !== typed.trim()) setTyped(text);
  }, [text]);
  useEffect(() => () => clearTimeout(waits.current), []);

  const { from, to, items } = complete(typed, caret, names);
  const isListed = isOpen && items.length > 0;
  const apply = (said, inMs = 0) => {
    clearTimeout(waits.current);
    waits.current = setTimeout(() => onChange(said.trim()), inMs);
  };
  const write = (said, place) => {
    setTyped(said);
    setCaret(place);
    setAt(-1);
  };
  const choose = (item) => {
    const said = typed.slice(0, from) + item.insert + typed.slice(to).trimStart();
    const place = from + item.insert.length;
    write(said, place);
    apply(said, item.insert.endsWith(":") ? THINK_MS : 0);
    input.current.focus();
    input.current.value = said; // synchronously, so that the caret is right before the next key
    input.current.setSelectionRange(place, place);
  };
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      setOpen(true);
      if (items.length) setAt((at + step + items.length) % items.length);
    } else if (event.key === "Enter" || (event.key === "Tab" && isListed && at >= 0)) {
      if (isListed && at >= 0) choose(items[at]);
      else {
        apply(typed);
        setOpen(false);
      }
    } else if (event.key === "Escape") {
      if (!isListed) input.current.blur();
      setOpen(false);
    } else return;
    event.preventDefault();
  };
  const moved = () => setCaret(input.current.selectionStart ?? 0);
  const typing = (event) => {
    const said = event.target.value;
    const place = event.target.selectionStart ?? said.length;
    const next = complete(said, place, names);
    write(said, place);
    setOpen(true);
    apply(said, next.items.length && next.from < place ? THINK_MS : APPLY_MS);
  };
  const isWriting = isOpen && typed.trim() !== text;
  return html`
    <div class="query">
      <div class="query-line">
        <${Icon} name="search" />
        <input
          ref=${input}
          type="search"
          role="combobox"
          aria-label="Search jobs"
          aria-expanded=${isListed}
          aria-controls=${id}
          aria-autocomplete="list"
          spellcheck=${false}
          autocomplete="off"
          autocapitalize="off"
          aria-activedescendant=${isListed && at >= 0 ? `${id}-${at}` : undefined}
          aria-describedby=${troubles.length ? `${id}-troubles` : undefined}
          aria-invalid=${troubles.length > 0 && !isWriting}
          placeholder='state:failed queue:mail age:<24h "timeout"'
          value=${typed}
          onInput=${typing}
          onKeyDown=${press}
          onKeyUp=${moved}
          onClick=${() => {
            moved();
            setOpen(true);
          }}
          onFocus=${() => {
            setUsed(true);
            setOpen(true);
          }}
          onBlur=${() => setOpen(false)}
        />
        <kbd>/</kbd>
      </div>
      ${isListed && html`
        <ul class="query-items" id=${id} role="listbox" aria-label="Suggestions">
          ${items.map(
            (item, index) => html`
              <li
                key=${item.label}
                id="${id}-${index}"
                role="option"
                aria-selected=${index === at}
                onMouseDown=${(event) => {
                  event.preventDefault();
                  choose(item);
                }}
              >
                <code>${item.label}</code>
                ${item.says && html`<span class="dim">${item.says}</span>`}
              </li>
            `,
          )}
        </ul>
      `}
      ${troubles.length > 0 && !isWriting && html`
        <div id="${id}-troubles" role="status">
          <ul class="query-troubles">
            ${troubles.map((one) => html`<${Explained} text=${text} trouble=${one} onFix=${apply} />`)}
          </ul>
        </div>
      `}
    </div>
  `;
}

/** A term that cannot be parsed, with its position. */
function Explained({ text, trouble, onFix }) {
  const fixed = text.slice(0, trouble.at) + trouble.fix + text.slice(trouble.end);
  const before = text.slice(Math.max(0, trouble.at - 24), trouble.at);
  return html`
    <li>
      <${Icon} name="circle-alert" />
      <code>
        <span class="dim">${trouble.at > 24 && "…"}${before}</span>
        <mark>${text.slice(trouble.at, trouble.end)}</mark>
      </code>
      <span>${trouble.text}</span>
      ${trouble.fix && html`<button class="link" onClick=${() => onFix(fixed)}>Use ${trouble.fix}</button>`}
    </li>
  `;
}
