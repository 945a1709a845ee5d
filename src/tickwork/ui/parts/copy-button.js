// Buttons that copy a text, or an API call as curl, command or Python.

import { html, useState } from "../vendor/core.js";
import { address } from "../lib/api.js";
import { stringify } from "../lib/lossless-json.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { say } from "./toast.js";

/** @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS, browsers offer no clipboard API, but the old command works.
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") || document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return undefined;
}

/** @param {{text: string, label?: string}} props */
export function CopyButton({ text, label = "Copy" }) {
  const [isDone, setDone] = useState(false);
  const run = async (event) => {
    event.stopPropagation();
    await copy(text);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`
    <button type="button" class="bare copy" title=${label} aria-label=${isDone ? "Copied" : label} onClick=${run}>
      <${Icon} name=${isDone ? "check" : "clipboard-copy"} />
    </button>
  `;
}

/** Quote a text for a shell. @param {string} text */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/**
 * A curl command for an API call. The key comes from the environment.
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {Record<string, any>} [query]
 */
export function curl(method, path, body, query) {
  const lines = [
    `curl -sS${method === "GET" ? "" : ` -X ${method}`} ${quoted(address(path, query).href)}`,
    `  -H "Authorization: Bearer $TICKWORK_KEY"`,
  ];
  if (body !== undefined) lines.push(`  -H 'Content-Type: application/json'`, `  -d ${quoted(stringify(body))}`);
  return lines.join(" \\\n");
}

/** @param {{forms: {curl?: string, cli?: string, python?: string}, label?: string}} props */
export function CopyAs({ forms, label = "Copy as" }) {
  const names = { curl: "curl", cli: "Command", python: "Python" };
  const items = Object.entries(names)
    .filter(([form]) => forms[form])
    .map(([form, name]) => ({
      label: name,
      icon: form === "python" ? "code" : "clipboard-copy",
      run: () => copy(forms[form]).then(() => say(`Copied as ${name}.`)),
    }));
  return html`
    <${Menu} label=${label} title=${label ? undefined : "Copy as"} icon="clipboard-copy" items=${items} align="right" />
  `;
}
