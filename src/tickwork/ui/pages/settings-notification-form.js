// The form of a notification: event, filter, delay and channels. It shows only the fields that the event uses.

import { html, useState } from "../vendor/core.js";
import { TEXTS } from "../texts/settings.js";
import { FormDialog } from "../parts/dialog.js";
import { Notice } from "../parts/loading-and-errors.js";

const OF_JOBS = ["task", "dag", "queue", "schedule"];

/**
 * The events: `takes` lists the filters, `after` is the default threshold ("" is required, absent: immediate).
 * @type {Record<string, {title: string, says: string, takes: string[], after?: string}>}
 */
export const CASES = {
  failed: { title: "failed jobs", says: TEXTS.aboutFailed, takes: OF_JOBS },
  dead: {
    title: "dead letters",
    says: TEXTS.aboutDead,
    takes: OF_JOBS,
    after: "1h",
  },
  late: {
    title: "late jobs",
    says: TEXTS.aboutLate,
    takes: OF_JOBS,
    after: "5m",
  },
  never_started: {
    title: "jobs not started",
    says: TEXTS.aboutNotStarted,
    takes: OF_JOBS,
    after: "15m",
  },
  sla_missed: {
    title: "slow jobs",
    says: TEXTS.aboutSlow,
    takes: OF_JOBS,
    after: "",
  },
  schedule_missed: {
    title: "missed occurrences",
    says: TEXTS.aboutMissed,
    takes: ["schedule"],
  },
  worker_lost: { title: "lost workers", says: "A worker stopped renewing its lease.", takes: [] },
  queue_older_than: {
    title: "queue backlogs",
    says: TEXTS.aboutBacklog,
    takes: ["queue"],
    after: "10m",
  },
  silent: {
    title: "missing successes",
    says: TEXTS.aboutMissing,
    takes: ["task", "dag", "schedule"],
    after: "",
  },
};

/** "of task mail" @param {any} one */
export const narrowed = (one) =>
  OF_JOBS.filter((name) => one[name])
    .map((name) => `of ${name} ${one[name]}`)
    .join(", ");

/**
 * @param {{one?: any, channels: any[], onClose: () => void, onStore: (name: string, body: any) => Promise<void>}} props
 */
export function NotificationForm({ one, channels, onClose, onStore }) {
  const [on, setOn] = useState(one?.on || "failed");
  const known = CASES[on];
  const submit = (values) => {
    const to = channels.map((channel) => channel.name).filter((name) => values[`to-${name}`]);
    const given = Object.fromEntries([...known.takes, "after", "window"].map((name) => [name, values[name]]));
    return onStore(one?.name || values.name, { on, to, ...given });
  };
  return html`
    <${FormDialog}
      title=${one ? `Edit notification ${one.name}` : "New notification"}
      does="Save"
      onClose=${onClose}
      onSubmit=${submit}
    >
      ${!one && html`
        <label class="field">
          <span>Name</span>
          <input name="name" required autofocus autocomplete="off" maxlength="100" placeholder="night" />
        </label>
      `}
      <label class="field">
        <span>Event</span>
        <select value=${on} onChange=${(event) => setOn(event.target.value)}>
          ${Object.entries(CASES).map(([id, { title }]) => html`<option key=${id} value=${id}>${title}</option>`)}
        </select>
        <small>${known.says}</small>
      </label>
      ${known.after !== undefined && html`
        <label class="field" key="after-${on}">
          <span>After</span>
          <input
            name="after"
            required=${known.after === ""}
            placeholder=${known.after || "1h"}
            defaultValue=${one?.on === on ? one.after : ""}
          />
          <small>${known.after ? `Default: ${known.after}.` : "A duration: 30s, 15m, 1h, 2d."}</small>
        </label>
      `}
      ${known.takes.length > 0 && html`
        <fieldset class="field">
          <legend>${on === "silent" ? "For one of" : "Only for"}</legend>
          <div class="fields">
            ${known.takes.map(
              (name) => html`
                <label class="field" key=${name}>
                  <span>${name}</span>
                  <input
                    name=${name}
                    defaultValue=${one?.[name] || ""}
                    placeholder=${on === "silent" ? "" : "any"}
                    autocomplete="off"
                  />
                </label>
              `,
            )}
          </div>
        </fieldset>
      `}
      ${channels.length
        ? html`
            <fieldset class="field">
              <legend>Channels</legend>
              ${channels.map(
                ({ name }) => html`
                  <label class="check" key=${name}>
                    <input
                      type="checkbox"
                      name="to-${name}"
                      defaultChecked=${one ? one.to.includes(name) : channels.length === 1}
                    />
                    ${name}
                  </label>
                `,
              )}
            </fieldset>
          `
        : html`<${Notice} tone="warn" icon="triangle-alert">${TEXTS.noChannelYet}</${Notice}>`}
      <label class="field">
        <span>Group events within this time into one message</span>
        <input name="window" placeholder="5m" defaultValue=${one?.window || ""} />
      </label>
    </${FormDialog}>
  `;
}
