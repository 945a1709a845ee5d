// A form for the values that a JSON Schema describes, or one JSON text field for all of them.

import { html, useState } from "../vendor/core.js";
import { parse, stringify } from "../lib/lossless-json.js";
import { TEXTS } from "../texts/common.js";

/** The kind of input for a field of a schema; JSON if none fits. */
function kindOf(schema) {
  if (schema.enum) return "enum";
  const types = [schema.type, ...(schema.anyOf || []).map((one) => one.type)]
    .flat()
    .filter((type) => type && type !== "null");
  return types.length === 1 && ["string", "integer", "number", "boolean"].includes(types[0]) ? types[0] : "json";
}

/**
 * The initial texts of the fields: given values, then defaults.
 * @param {any} schema
 * @param {Record<string, any>} [given]
 */
export function firstParams(schema, given = {}) {
  /** @type {Record<string, string | boolean>} */
  const texts = {};
  for (const [name, one] of Object.entries(schema?.properties || {})) {
    const value = name in given ? given[name] : one.default;
    if (value === undefined) texts[name] = kindOf(one) === "boolean" ? false : "";
    else {
      texts[name] =
        kindOf(one) === "boolean"
          ? Boolean(value)
          : kindOf(one) === "string" && value !== null
            ? String(value)
            : kindOf(one) === "enum"
              ? stringify(value)
              : value === null
                ? ""
                : stringify(value);
    }
  }
  return texts;
}

/**
 * The values of the fields. Empty optional fields are omitted. Throws a sentence for invalid input.
 * @param {any} schema
 * @param {Record<string, string | boolean>} texts
 */
export function paramsOf(schema, texts) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const [name, one] of Object.entries(schema?.properties || {})) {
    const text = texts[name];
    const kind = kindOf(one);
    if (kind === "boolean") values[name] = text;
    else if (text === "" && !(kind === "string" && schema.required?.includes(name))) continue;
    else if (kind === "string") values[name] = text;
    else values[name] = parsed(String(text), name);
  }
  return values;
}

/** @param {string} text @param {string} name */
export function parsed(text, name) {
  try {
    return parse(text);
  } catch {
    throw new Error(TEXTS.notJson(name, text.slice(0, 60)));
  }
}

/**
 * Inputs for parameters. The parent owns the state: `texts` by name, or one `raw` text.
 * @param {{schema: any, texts: Record<string, string | boolean>, raw: string | null, onTexts: (texts: any) =>
 *   void,   onRaw: (raw: string | null) => void}} props
 */
export function ParamsForm({ schema, texts, raw, onTexts, onRaw }) {
  const [problem, setProblem] = useState("");
  const fields = Object.entries(schema?.properties || {});
  const toRaw = () => turn(() => onRaw(stringify(paramsOf(schema, texts), 2)));
  const toFields = () =>
    turn(() => {
      onTexts(firstParams({ ...schema, properties: withoutDefaults(schema) }, parsed(raw, "The text")));
      onRaw(null);
    });
  const turn = (run) => {
    try {
      run();
      setProblem("");
    } catch (error) {
      setProblem(error.message);
    }
  };
  if (!fields.length && raw === null) return html`<p class="dim">No parameters.</p>`;
  return html`
    <div class="stack">
      <div class="row spread">
        <h3>Parameters</h3>
        <button type="button" class="link" aria-pressed=${raw !== null} onClick=${raw === null ? toRaw : toFields}>
          ${raw === null ? "as JSON" : "as fields"}
        </button>
      </div>
      ${raw === null
        ? fields.map(
            ([name, one]) => html`
              <${Field}
                key=${name}
                name=${name}
                schema=${one}
                isNeeded=${schema.required?.includes(name)}
                value=${texts[name]}
                onValue=${(value) => onTexts({ ...texts, [name]: value })}
              />
            `,
          )
        : html`
            <label class="field">
              <span class="hidden-label">Parameters as JSON</span>
              <textarea
                rows="8"
                spellcheck=${false}
                value=${raw}
                onInput=${(event) => onRaw(event.target.value)}
              ></textarea>
            </label>
          `}
      ${problem && html`<p class="bad-text" role="alert">${problem}</p>`}
    </div>
  `;
}

const withoutDefaults = (schema) =>
  Object.fromEntries(Object.entries(schema.properties).map(([name, { default: _, ...rest }]) => [name, rest]));

function Field({ name, schema, isNeeded, value, onValue }) {
  const kind = kindOf(schema);
  const set = (event) => onValue(event.target.value);
  const hint = [kind === "json" ? "JSON" : kind === "enum" ? "" : kind, isNeeded ? "" : "optional"]
    .filter(Boolean)
    .join(", ");
  if (kind === "boolean") {
    return html`
      <label class="check">
        <input type="checkbox" checked=${value} onChange=${(event) => onValue(event.target.checked)} />
        <span>${name}</span>
      </label>
    `;
  }
  const input =
    kind === "enum"
      ? html`
          <select value=${value} onChange=${set}>
            ${!isNeeded && html`<option value=""></option>`}
            ${schema.enum.map((one) => html`<option value=${stringify(one)}>${String(one)}</option>`)}
          </select>
        `
      : kind === "json"
        ? html`<textarea rows="3" spellcheck=${false} required=${isNeeded} value=${value} onInput=${set}></textarea>`
        : html`
            <input
              type=${kind === "string" ? "text" : "number"}
              step=${kind === "integer" ? 1 : "any"}
              required=${isNeeded && kind !== "string"}
              value=${value}
              onInput=${set}
              autocomplete="off"
            />
          `;
  return html`
    <label class="field">
      <span>${name} <small class="dim">${hint}</small></span>
      ${input}
      ${schema.description && html`<small>${schema.description}</small>`}
    </label>
  `;
}
