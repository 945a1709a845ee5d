// Limits and breakers: values, usage and held jobs, and a form that changes a limit.

import { html, useState } from "../vendor/core.js";
import { part, put, remove } from "../lib/api.js";
import { useResource } from "../lib/data.js";
import { atLeast, brief, count } from "../lib/format.js";
import { onAny, onJobs, onTopics } from "../lib/live.js";
import { href, place, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/queues.js";
import { CopyAs, curl, quoted } from "../parts/copy-button.js";
import { ask, Dialog, Refusal } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Meter } from "../parts/meter.js";
import { Empty, Loading, Notice, Trouble } from "../parts/loading-and-errors.js";
import { Facts, Panel } from "../parts/page-layout.js";
import { State } from "../parts/state-badge.js";
import { Table } from "../parts/table.js";
import { attempt, say } from "../parts/toast.js";
import { When } from "../parts/relative-time.js";

const CODE = `from tickwork import breaker, concurrency, rate

@app.task(limits=[concurrency(2, key="account"), rate("100/s")], breaker=breaker(failures=50, window="1m"))
def sync_account(account: str) -> None: ...`;

const HELD_COUNTED = 1000;

/** The owner of a limit: "task charge", "queue mail", or its own name. @param {string} name */
export function ownerOf(name) {
  const [, kind, owner] = /^(task|queue):(.*)#[^#]*$/.exec(name) || [];
  return kind ? `${kind} ${owner}` : name;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  {
    id: "name",
    title: "Limit",
    cell: (row) => html`
      <a href=${hrefOf(row)}><b>${ownerOf(row.name)}</b></a>
      ${ownerOf(row.name) !== row.name && html` <span class="dim small" data-from="tablet">${row.name}</span>`}
    `,
  },
  { id: "kind", title: "Kind", from: "phone", cell: (row) => row.rule?.kind || "none" },
  {
    id: "rule",
    title: "Limit",
    cell: (row) => html`
      <span class="row">
        ${row.rule ? row.rule.said : "everything"}
        ${row.override && html`
          <span class="tag" title=${row.declared ? `Declared in code: ${row.declared.said}` : "Not declared in code"}>
            overridden
          </span>
        `}
      </span>
    `,
  },
  {
    id: "key",
    title: "Key",
    from: "tablet",
    cell: (row) =>
      row.rule?.key ? html`<span class="tag">${row.rule.key}</span>` : html`<span class="dim">none</span>`,
  },
  { id: "live", title: "Live", align: "right", from: "phone", cell: (row) => html`<${Live} limit=${row} />` },
  {
    id: "held",
    title: "Held",
    align: "right",
    cell: (row) => (row.held ? html`<b class="num">${count(row.held)}</b>` : html`<span class="dim">0</span>`),
  },
];

const hrefOf = (limit) => href("/queues", { tab: "limits", limit: limit.name });

function Live({ limit }) {
  if (limit.rule?.kind === "breaker") {
    return html`
      <${State}
        state=${limit.open_keys ? "failed" : "succeeded"}
        text=${limit.open_keys ? (limit.rule.key ? `open for ${limit.open_keys}` : "open") : "closed"}
      />
    `;
  }
  if (limit.rule?.kind === "concurrency" && !limit.rule.key) {
    return html`<${Meter} value=${limit.live} of=${limit.rule.concurrency} label=${limit.rule.said} />`;
  }
  return html`<span class="num">${brief(limit.live)}</span>`;
}

/** @param {{limits: any[], refresh: () => void}} props */
export function Limits({ limits, refresh }) {
  const chosen = limits.find((one) => one.name === place.value.query.limit);
  if (!limits.length) {
    return html`
      <${Panel} label="Limits">
        <${Empty} icon="gauge" title="No limits yet" code=${CODE}>${TEXTS.noLimitsText}</${Empty}>
      </${Panel}>
    `;
  }
  const rows = [...limits].sort(
    (one, other) =>
      other.open_keys - one.open_keys ||
      Number(other.held > 0) - Number(one.held > 0) ||
      (one.name < other.name ? -1 : 1),
  );
  return html`
    <${Panel} label="Limits">
      <${Table} label="Limits" columns=${COLUMNS} rows=${rows} idOf=${(row) => row.name} hrefOf=${hrefOf} />
    </${Panel}>
    ${chosen && html`<${LimitDrawer} key=${chosen.name} limit=${chosen} refresh=${refresh} />`}
  `;
}

const PHASES = {
  closed: ["succeeded", "closed"],
  open: ["failed", "open"],
  "half-open": ["retrying", "probing"],
};

function LimitDrawer({ limit, refresh }) {
  const close = () => setQuery({ limit: undefined });
  const keys = useResource(`/limits/${part(limit.name)}/keys`, { live: onAny(onJobs, onTopics("limits")), every: 5 });
  const isBreaker = limit.rule?.kind === "breaker";
  return html`
    <${Dialog} title=${`Limit ${ownerOf(limit.name)}`} drawer onClose=${close}>
      <${Facts}
        items=${[
          ["Limit", limit.rule ? limit.rule.said : "everything"],
          ["Key", limit.rule?.key || "none"],
          ["Declared in code", limit.declared ? limit.declared.said : "nothing"],
          ["Overridden here", limit.override ? limit.override.said : "nothing"],
          [isBreaker ? "" : "Live", isBreaker ? null : count(limit.live)],
          ["Held", count(limit.held)],
          ["Name", html`<code>${limit.name}</code>`],
        ]}
      />
      ${isBreaker && html`
        <${Notice} tone=${limit.open_keys ? "bad" : "good"} icon=${limit.open_keys ? "zap" : "circle-check"}>
          ${limit.open_keys ? TEXTS.breakerOpenText : TEXTS.breakerClosedText}
        </${Notice}>
      `}
      <h3>Usage</h3>
      ${keys.isLoading
        ? html`<${Loading} />`
        : keys.problem && !keys.data
          ? html`<${Trouble} problem=${keys.problem} onRetry=${keys.refresh} />`
          : html`<${Keys} limit=${limit} keys=${keys.data} />`}
      ${may("operate") && !isBreaker && html`<${Change} limit=${limit} refresh=${refresh} />`}
    </${Dialog}>
  `;
}

function Keys({ limit, keys }) {
  if (!keys.items.length) return html`<p class="dim">No running or held jobs.</p>`;
  const most = limit.rule?.kind === "concurrency" ? limit.rule.concurrency : 0;
  /** @type {import("../parts/table.js").Column[]} */
  const columns = [
    {
      id: "key",
      title: limit.rule?.key || "Key",
      cell: (row) => html`<span class="mono">${row.key || "none"}</span>`,
    },
    limit.rule?.kind === "breaker"
      ? {
          id: "phase",
          title: "State",
          cell: (row) => html`
            <${State} state=${PHASES[row.phase || "closed"][0]} text=${PHASES[row.phase || "closed"][1]} />
          `,
        }
      : {
          id: "live",
          title: "Live",
          align: "right",
          cell: (row) =>
            most
              ? html`<${Meter} value=${row.live} of=${most} label=${`${row.key || "all"}: ${limit.rule.said}`} />`
              : html`<span class="num">${row.live}</span>`,
        },
    { id: "held", title: "Held", align: "right", cell: (row) => atLeast(row.held, row.held >= HELD_COUNTED) },
    {
      id: "opens",
      title: "Next start",
      cell: (row) =>
        row.opens_at
          ? html`<${When} at=${row.opens_at} />`
          : html`<span class="dim">${row.held ? "when one ends" : ""}</span>`,
    },
  ];
  return html`
    <div class="panel">
      <${Table} label="Keys of the limit" columns=${columns} rows=${keys.items} idOf=${(row) => row.key} />
    </div>
    ${keys.is_partial && html`<p class="dim small">${TEXTS.moreKeys}</p>`}
  `;
}

function Change({ limit, refresh }) {
  const [kind, setKind] = useState(limit.rule?.kind === "rate" ? "rate" : "concurrency");
  const [values, setValues] = useState({
    concurrency: limit.rule?.concurrency ?? 5,
    rate: limit.rule?.rate ?? "",
    burst: limit.rule?.burst ?? "",
  });
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const path = `/limits/${part(limit.name)}`;
  /** @type {any} */
  const body =
    kind === "concurrency"
      ? { concurrency: Number(values.concurrency) }
      : { rate: values.rate, ...(values.burst === "" ? {} : { burst: Number(values.burst) }) };
  const { concurrency, burst } = body;
  const hasBurst = burst !== undefined;
  const isRate = kind === "rate";
  const options = isRate
    ? `--rate ${quoted(body.rate)}${hasBurst ? ` --burst ${burst}` : ""}`
    : `--concurrency ${concurrency}`;
  const rule = isRate
    ? `rate(${JSON.stringify(body.rate)}${hasBurst ? `, burst=${burst}` : ""})`
    : `concurrency(${concurrency})`;
  const forms = {
    curl: curl("PUT", path, body),
    cli: `tickwork limits set ${quoted(limit.name)} ${options}`,
    python: `app.set_limit(${JSON.stringify(limit.name)}, ${rule})`,
  };
  const submit = async (event) => {
    event.preventDefault();
    try {
      const after = await put(path, body);
      setProblem(null);
      say(TEXTS.limitChanged(ownerOf(limit.name), after.rule.said));
      refresh();
    } catch (refused) {
      setProblem(refused);
    }
  };
  const reset = async () => {
    const text = limit.declared ? TEXTS.resetLimitText(limit.declared.said) : TEXTS.removeLimitText;
    if (await ask({ title: TEXTS.resetLimitTitle(ownerOf(limit.name)), text, does: "Reset" })) {
      await attempt(() => remove(path).then(refresh), TEXTS.limitReset);
    }
  };
  const hear = (event) => setValues((now) => ({ ...now, [event.target.name]: event.target.value }));
  return html`
    <form class="limit-form" onSubmit=${submit}>
      <h3>Change limit</h3>
      <p class="dim small">${TEXTS.changeLimitText}</p>
      <div class="row">
        <label class="check">
          <input type="radio" name="kind" checked=${kind === "concurrency"} onChange=${() => setKind("concurrency")} />
          Concurrency
        </label>
        <label class="check">
          <input type="radio" name="kind" checked=${kind === "rate"} onChange=${() => setKind("rate")} />Rate of starts
        </label>
      </div>
      <div class="fields" onInput=${hear}>
        ${kind === "concurrency"
          ? html`
              <label class="field">
                <span>At once${limit.rule?.key ? `, for each ${limit.rule.key}` : ""}</span>
                <input name="concurrency" type="number" min="1" required value=${values.concurrency} />
              </label>
            `
          : html`
              <label class="field">
                <span>Rate</span>
                <input name="rate" required placeholder="10/s, 1000/h, 100/15m" value=${values.rate} />
              </label>
              <label class="field">
                <span>Burst</span>
                <input name="burst" type="number" min="0" value=${values.burst} />
              </label>
            `}
      </div>
      ${problem && html`<${Refusal} problem=${problem} />`}
      <div class="row">
        <button class="main" type="submit">Change limit</button>
        ${limit.override && html`
          <button type="button" onClick=${reset}><${Icon} name="undo-2" />Reset to the value in code</button>
        `}
        <${CopyAs} forms=${forms} />
      </div>
    </form>
  `;
}
