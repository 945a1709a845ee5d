// The progress of a bulk operation on the server, with a button to stop it.

import { html, useEffect, useState } from "../vendor/core.js";
import { part, post } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { count, many } from "../lib/format.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/common.js";
import { Icon } from "./icon.js";
import { attempt } from "./toast.js";

const DONE = { succeeded: "done", cancelled: "stopped", failed: "failed" };
const LOOK_S = 1;

/** @param {{id: string, total?: number | null, onEnd?: () => void, onClose?: () => void}} props */
export function Operation({ id, total, onEnd, onClose }) {
  const [isOver, setOver] = useState(false);
  const { data, refresh } = useResource(`/operations/${part(id)}`, { every: isOver ? 0 : LOOK_S });
  useEffect(() => {
    if (!data?.ended_at || isOver) return;
    setOver(true);
    onEnd?.();
  }, [data?.ended_at]);
  if (!data) return null;
  const share = isOver ? 1 : total ? Math.min(1, data.looked / total) : 0;
  const state = isOver ? DONE[data.state] || data.state : "running";
  const cancel = () => attempt(() => post(`/operations/${part(id)}/cancel`).then(refresh), TEXTS.operationStopping);
  return html`
    <div class="operation" role="status" data-tone=${data.state === "failed" ? "bad" : isOver ? "good" : "run"}>
      <div class="row spread">
        <span>
          <b>${data.action}</b> ${state}: ${many(data.changed, "job")} changed, ${count(data.looked)} scanned
          ${total && !isOver ? ` of ${count(total)}` : ""}
        </span>
        ${isOver
          ? onClose && html`<button class="bare" aria-label="Close" onClick=${onClose}><${Icon} name="x" /></button>`
          : may("operate") && html`<button onClick=${cancel}>Stop</button>`}
      </div>
      <div class="bar-track"><i style=${{ width: `${Math.max(2, share * 100)}%` }}></i></div>
      ${data.error && html`<p class="bad-text">${data.error}</p>`}
    </div>
  `;
}
