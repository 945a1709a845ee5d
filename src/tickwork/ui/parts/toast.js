// Toasts: short messages about completed actions, also announced to screen readers.

import { html, signal } from "../vendor/core.js";
import { Icon } from "./icon.js";

/** @typedef {{id: number, tone: string, text: string, action?: {label: string, run: () => void}}} Toast */

const shown = signal(/** @type {Toast[]} */ ([]));
const LASTS_MS = 6000;
let last = 0;

/** @param {string} text @param {{tone?: "good"|"bad"|"warn"|"run", action?: {label: string, run: () => void}}} [how] */
export function say(text, { tone = "good", action } = {}) {
  const id = (last += 1);
  shown.value = [...shown.value.slice(-3), { id, tone, text, action }];
  setTimeout(() => hide(id), tone === "bad" ? LASTS_MS * 2 : LASTS_MS);
}

/**
 * Run an action and report its result or error as a toast. Returns the result, or undefined.
 * @template T
 * @param {() => Promise<T>} action
 * @param {string | ((done: T) => string)} [done]
 * @returns {Promise<T | undefined>}
 */
export async function attempt(action, done) {
  try {
    const result = await action();
    if (done) say(typeof done === "function" ? done(result) : done);
    return result;
  } catch (problem) {
    say(problem.message, { tone: "bad" });
    return undefined;
  }
}

const hide = (id) => (shown.value = shown.value.filter((one) => one.id !== id));
const SIGNS = { good: "circle-check", bad: "circle-x", warn: "triangle-alert", run: "info" };

export function Toasts() {
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${shown.value.map(
        (one) => html`
          <div key=${one.id} class="toast" data-tone=${one.tone}>
            <${Icon} name=${SIGNS[one.tone]} />
            <span>${one.text}</span>
            ${one.action && html`
              <button
                class="link"
                onClick=${() => {
                  one.action.run();
                  hide(one.id);
                }}
              >
                ${one.action.label}
              </button>
            `}
            <button class="bare" aria-label="Dismiss" onClick=${() => hide(one.id)}><${Icon} name="x" /></button>
          </div>
        `,
      )}
    </div>
  `;
}
