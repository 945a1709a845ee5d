// A list of changed fields with their values before and after.

import { html } from "../vendor/core.js";
import { stringify } from "../lib/lossless-json.js";
import { TEXTS } from "../texts/common.js";

const DEPTH = 4;

/** The fields of a value by path, down to a readable depth. @param {any} value @returns {Map<string, any>} */
export function fieldsOf(value, path = "", depth = 0, found = new Map()) {
  const isBranch =
    value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;
  if (!isBranch || depth === DEPTH) {
    if (value !== null && value !== undefined) found.set(path, value);
    return found;
  }
  for (const [name, one] of Object.entries(value)) fieldsOf(one, path ? `${path}.${name}` : name, depth + 1, found);
  return found;
}

const said = (value) => (typeof value === "string" ? value : stringify(value));

/** The changed fields, and the number of unchanged ones. @param {any} before @param {any} after */
export function difference(before, after) {
  const [old, made] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...old.keys(), ...made.keys()])];
  const rows = names.map((name) => ({ name, before: old.get(name), after: made.get(name) }));
  const changed = rows.filter((row) => said(row.before) !== said(row.after));
  return { changed, same: rows.length - changed.length };
}

/** @param {{before: any, after: any}} props */
export function Changes({ before, after }) {
  const { changed, same } = difference(before, after);
  if (!changed.length) {
    return html`<p class="dim">${same ? TEXTS.noChange : TEXTS.noChangeDetails}</p>`;
  }
  return html`
    <div class="changes">
      <dl>
        ${changed.map(
          (row) => html`
            <div key=${row.name}>
              <dt>${row.name || "value"}</dt>
              ${row.before !== undefined && html`
                <dd data-tone="bad"><span class="hidden-label">before</span><del>${said(row.before)}</del></dd>
              `}
              ${row.after !== undefined && html`
                <dd data-tone="good"><span class="hidden-label">after</span><ins>${said(row.after)}</ins></dd>
              `}
            </div>
          `,
        )}
      </dl>
      ${before && after && same > 0 && html`
        <p class="dim small">${same === 1 ? "One other field" : `${same} other fields`} unchanged.</p>
      `}
    </div>
  `;
}
