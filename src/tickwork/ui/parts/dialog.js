// Dialogs, questions and form dialogs, on the browser's own dialog element.

import { html, signal, useEffect, useRef, useState } from "../vendor/core.js";
import { Icon } from "./icon.js";
import { say } from "./toast.js";

/** A dialog that is open while it is rendered.
 * @param {{title: string, onClose: () => void, children: any, footer?: any, wide?: boolean, drawer?: boolean}} props */
export function Dialog({ title, onClose, children, footer, wide = false, drawer = false }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  const outside = (event) => event.target === box.current && onClose();
  return html`
    <dialog
      ref=${box}
      class="${wide ? "wide" : ""} ${drawer ? "drawer" : ""}"
      aria-label=${title}
      onCancel=${(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown=${outside}
    >
      <header>
        <h2>${title}</h2>
        <button class="bare" aria-label="Close" onClick=${onClose}><${Icon} name="x" /></button>
      </header>
      <div class="body">${children}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </dialog>
  `;
}

/**
 * @typedef {{title: string, text?: any, does: string, isBad?: boolean, confirm?: string, resolve: (yes: boolean) =>
 *   void}} Question
 */

const asked = signal(/** @type {Question | null} */ (null));

/**
 * Ask for confirmation. `confirm`: a word that must be typed.
 * @param {{title: string, text?: any, does: string, isBad?: boolean, confirm?: string}} question
 * @returns {Promise<boolean>}
 */
export const ask = (question) => new Promise((resolve) => (asked.value = { ...question, resolve }));

function answer(yes) {
  asked.value?.resolve(yes);
  asked.value = null;
}

/** Renders questions; mounted once in the frame. */
export function Questions() {
  return asked.value && html`<${Asked} key=${asked.value.title} question=${asked.value} />`;
}

/** The label of the button that closes a dialog: distinct from an action that cancels something. */
const dismissal = (does) => (does.startsWith("Cancel") ? "Don't cancel" : "Cancel");

function Asked({ question }) {
  const [typed, setTyped] = useState("");
  const isReady = !question.confirm || typed === question.confirm;
  const footer = html`
    <button onClick=${() => answer(false)}>${dismissal(question.does)}</button>
    <button class=${question.isBad ? "bad" : "main"} disabled=${!isReady} autofocus onClick=${() => answer(true)}>
      ${question.does}
    </button>
  `;
  return html`
    <${Dialog} title=${question.title} onClose=${() => answer(false)} footer=${footer}>
      ${question.text && html`<p>${question.text}</p>`}
      ${question.confirm && html`
        <label class="field">
          <span>Type <code>${question.confirm}</code> to confirm</span>
          <input value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" />
        </label>
      `}
    </${Dialog}>
  `;
}

/**
 * A form dialog: `onSubmit` gets the values by name. Its error is shown in the dialog, or as a toast if the dialog
 * is closed. The dialog closes after success, unless the result is false: then there is a next step. Nothing is
 * sent before it `isReady`.
 * @param {{title: string, does: string, onClose: () => void, onSubmit: (values: Record<string, any>) =>
 *   Promise<any>,   children: any, wide?: boolean, isBad?: boolean, isReady?: boolean}} props
 */
export function FormDialog({ title, does, onClose, onSubmit, children, wide, isBad, isReady = true }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const id = useRef(`form-${Math.random().toString(36).slice(2)}`).current;
  const stands = useRef({ isSending: false, isGone: false });
  useEffect(() => () => void (stands.current.isGone = true), []);
  const send = async (values) => {
    try {
      const isDone = (await onSubmit(values)) !== false;
      if (stands.current.isGone) return;
      if (isDone) return onClose();
      setProblem(null);
    } catch (refused) {
      if (stands.current.isGone) say(refused.message, { tone: "bad" });
      setProblem(refused);
    }
    setBusy(false);
  };
  const submit = (event) => {
    event.preventDefault();
    if (stands.current.isSending || !isReady) return;
    stands.current.isSending = true;
    setBusy(true);
    send(valuesOf(event.target)).finally(() => (stands.current.isSending = false));
  };
  const footer = html`
    <button onClick=${onClose}>${dismissal(does)}</button>
    <button type="submit" form=${id} class=${isBad ? "bad" : "main"} disabled=${isBusy || !isReady}>${does}</button>
  `;
  return html`
    <${Dialog} title=${title} onClose=${onClose} footer=${footer} wide=${wide}>
      <form id=${id} onSubmit=${submit}>${children}</form>
      ${problem && html`<${Refusal} problem=${problem} />`}
    </${Dialog}>
  `;
}

/** The error of a refused request, with its fields. @param {{problem: any}} props */
export function Refusal({ problem }) {
  return html`
    <div class="notice" data-tone="bad" role="alert">
      <${Icon} name="circle-x" />
      <div>
        <p>${problem.message}</p>
        ${problem.errors?.length > 0 && html`
          <ul>
            ${problem.errors.map(
              (one) => html`<li><code>${one.pointer || one.parameter || ""}</code> ${one.detail}</li>`,
            )}
          </ul>
        `}
      </div>
    </div>
  `;
}

function valuesOf(form) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const element of form.elements) {
    if (!element.name || element.disabled) continue;
    if (element.type === "checkbox") values[element.name] = element.checked;
    else if (element.type === "radio") {
      if (element.checked) values[element.name] = element.value;
    } else if (element.type === "number") {
      values[element.name] = element.value === "" ? undefined : Number(element.value);
    } else values[element.name] = element.value === "" ? undefined : element.value;
  }
  return values;
}
