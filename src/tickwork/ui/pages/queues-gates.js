// The list of gates, with their held jobs.

import { html } from "../vendor/core.js";
import { post } from "../lib/api.js";
import { count, many } from "../lib/format.js";
import { word } from "../lib/query.js";
import { href } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/queues.js";
import { CopyAs, curl } from "../parts/copy-button.js";
import { ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Empty } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { attempt } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";
import { asCommand, asPython, KINDS, SELECTORS } from "./queues-gate-form.js";

const CODE = `app.pause(task="send_email", until="2h", reason="the provider is down")
app.slow(tenant="acme", rate="5/s")
app.divert(label="bulk", to="spare")
app.drop(collection="campaign-7", until="1d")

app.resume(task="send_email")`;

/** @param {any} gate */
export const selectsOf = (gate) =>
  Object.fromEntries(SELECTORS.filter((name) => gate[name]).map((name) => [name, gate[name]]));

/** @param {{gates: any[], refresh: () => void, open: (what: any) => void}} props */
export function Gates({ gates, refresh, open }) {
  if (!gates.length) {
    return html`
      <${Panel} label="Gates">
        <${Empty} icon="circle-play" title="No gates" code=${CODE}>${TEXTS.noGatesText}</${Empty}>
      </${Panel}>
    `;
  }
  const same = (gate) => gates.filter((one) => JSON.stringify(selectsOf(one)) === JSON.stringify(selectsOf(gate)));
  const lift = async (gate) => {
    const all = same(gate);
    const title = all.length > 1 ? TEXTS.removeGatesTitle(all.length) : TEXTS.removeGateTitle(gate.name);
    const text =
      all.length > 1
        ? TEXTS.removeGatesText(all.map((one) => one.name).join("; "))
        : TEXTS.removeGateText(many(gate.held, "job"));
    if ((all.length > 1 || gate.held > 0) && !(await ask({ title, text, does: "Remove" }))) return;
    await attempt(
      () => post("/gates/resume", selectsOf(gate)).then(refresh),
      TEXTS.gateRemoved(many(all.length, "gate")),
    );
  };
  return html`
    <ul class="gates" aria-label="Gates">
      ${gates.map((gate) => html`<${One} key=${gate.name} gate=${gate} lift=${() => lift(gate)} open=${open} />`)}
    </ul>
  `;
}

function One({ gate, lift, open }) {
  const kind = KINDS[gate.kind];
  const selects = selectsOf(gate);
  return html`
    <li class="panel gate" data-tone=${kind.tone} data-gate=${gate.name}>
      <div class="gate-sign"><${Icon} name=${kind.icon} /></div>
      <div class="gate-what">
        <h2>
          <span>${kind.does}</span>${" "}
          ${Object.entries(selects).map(
            ([name, value]) => html`<span class="tag" key=${name}>${name} <b>${value}</b></span>`,
          )}
          ${gate.rate && html`<span>to ${gate.rate}</span>`}
          ${gate.to && html`<span>to queue <b>${gate.to}</b></span>`}
        </h2>
        <p class="dim">
          ${gate.reason ? html`<span class="text">${gate.reason}</span> · ` : ""}by ${gate.by || "unknown"}${" "}
          <${When} at=${gate.since} /> · ${gate.until ? html`ends <${When} at=${gate.until} />` : "until removed"}
        </p>
      </div>
      <dl class="gate-figures">
        <div>
          <dt>holds</dt>
          <dd class="num">
            ${gate.held
              ? html`
                  <a
                    href=${href("/jobs", {
                      q: [...Object.entries(selects).map(([name, value]) => word(name, value)), "state:queued"].join(
                        " ",
                      ),
                    })}
                  >
                    ${count(gate.held)}
                  </a>
                `
              : "0"}
          </dd>
        </div>
        ${(gate.kind === "drop" || gate.kind === "divert") && html`
          <div>
            <dt>${gate.kind === "drop" ? "dropped" : "diverted"}</dt>
            <dd class="num">${count(gate.passed_on)}</dd>
          </div>
        `}
      </dl>
      <div class="gate-do">
        ${may("operate") && html`
          <button onClick=${lift}>Remove</button>
          <button
            class="bare"
            aria-label=${`Edit gate ${gate.name}`}
            title="Edit"
            onClick=${() =>
              open({ gate: { ...selects, kind: gate.kind, rate: gate.rate, to: gate.to, reason: gate.reason } })}
          >
            <${Icon} name="pencil" />
          </button>
        `}
        <${CopyAs}
          label=""
          forms=${{
            curl: curl("POST", "/gates/resume", selects),
            cli: asCommand("resume", selects),
            python: asPython("resume", selects),
          }}
        />
      </div>
    </li>
  `;
}
