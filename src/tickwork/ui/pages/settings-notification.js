// One notification as a form: of what, of whom, after how long, by which channels. It asks only for what the case
// takes.

import { html, useState } from "../vendor/core.js";
import { FormDialog } from "../parts/dialog.js";
import { Notice } from "../parts/notices.js";

const OF_JOBS = ["task", "dag", "queue", "schedule"];

/**
 * What can be told: `takes` what narrows it, `after` how long something may take ("" needs an answer, absent: at once).
 * @type {Record<string, {title: string, says: string, takes: string[], after?: string}>}
 */
export const CASES = {
  failed: { title: "jobs that failed", says: "A job failed for good.", takes: OF_JOBS },
  dead: {
    title: "dead letters",
    says: "A failed job was neither redriven nor discarded for that long.",
    takes: OF_JOBS,
    after: "1h",
  },
  late: {
    title: "jobs that began late",
    says: "A job began that much later than it was due.",
    takes: OF_JOBS,
    after: "5m",
  },
  never_started: {
    title: "jobs that did not begin",
    says: "A job is due for so long and has not begun, or expired before that.",
    takes: OF_JOBS,
    after: "15m",
  },
  sla_missed: {
    title: "jobs that took too long",
    says: "A job had not ended so long after it was first due.",
    takes: OF_JOBS,
    after: "",
  },
  schedule_missed: {
    title: "missed occurrences",
    says: "An occurrence was not decided in time, or catch-up skipped it.",
    takes: ["schedule"],
  },
  worker_lost: { title: "lost workers", says: "A worker fell silent.", takes: [] },
  queue_older_than: {
    title: "queues that fall behind",
    says: "The oldest due job of a queue waits for longer; told again when it comes back.",
    takes: ["queue"],
    after: "10m",
  },
  silent: {
    title: "successes that did not come",
    says: "A success is expected every so often and did not come: a dead man's switch.",
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
      title=${one ? `The notification ${one.name}` : "New notification"}
      does="Store it"
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
        <span>Tell of</span>
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
          <small>${known.after ? `Without it, ${known.after}.` : "How long it may take: 30s, 15m, 1h, 2d."}</small>
        </label>
      `}
      ${known.takes.length > 0 && html`
        <fieldset class="field">
          <legend>${on === "silent" ? "Of one of these" : "Only of"}</legend>
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
              <legend>By</legend>
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
        : html`
            <${Notice} tone="warn" icon="triangle-alert">
              There is no channel yet. An administrator makes one first, below.
            </${Notice}>
          `}
      <label class="field">
        <span>All cases within this time are one message</span>
        <input name="window" placeholder="5m" defaultValue=${one?.window || ""} />
      </label>
    </${FormDialog}>
  `;
}
