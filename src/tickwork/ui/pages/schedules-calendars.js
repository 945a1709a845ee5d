// Calendars: sets of days on which schedules that use them do not fire.

import { html, useState } from "../vendor/core.js";
import { part, put, remove } from "../lib/api.js";
import { useList } from "../lib/data.js";
import { onTopics } from "../lib/live.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/schedules.js";
import { FormDialog, ask } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Empty, Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";
import { Table } from "../parts/table.js";
import { attempt } from "../parts/toast.js";

const CODE = `from tickwork import Tickwork, calendar, cron

app = Tickwork()
app.put_calendar("holidays", calendar(dates=["2026-12-28"], yearly=["12-25", "01-01"]))
app.schedule("payroll", pay, cron("0 9 * * 1-5"), calendars=["holidays"])`;
const words = (text) => (text || "").split(/[\s,]+/).filter(Boolean);

export function Calendars() {
  const list = useList("/calendars", { idOf: (one) => one.name, live: onTopics("schedules", "calendars") });
  const [edited, setEdited] = useState(/** @type {any} */ (null));
  if (list.isLoading) return html`<${Loading} />`;
  if (list.problem) return html`<${Trouble} problem=${list.problem} onRetry=${list.refresh} />`;
  const drop = async (one) => {
    if (
      await ask({
        title: `Delete ${one.name}?`,
        text: TEXTS.deleteCalendarText,
        does: "Delete",
        isBad: true,
      })
    ) {
      await attempt(() => remove(`/calendars/${part(one.name)}`).then(list.refresh), TEXTS.calendarDeleted(one.name));
    }
  };
  const columns = [
    { id: "name", title: "Calendar", cell: (one) => html`<b>${one.name}</b>` },
    {
      id: "days",
      title: "Excluded days",
      cell: (one) => [...one.weekdays, ...one.yearly.map((day) => `every ${day}`), ...one.dates].join(", ") || "none",
    },
    {
      id: "tz",
      title: "Zone",
      from: /** @type {const} */ ("phone"),
      cell: (one) => one.tz || html`<span class="dim">of each schedule</span>`,
    },
    ...(may("operate")
      ? [
          {
            id: "do",
            title: html`<span class="hidden-label">Actions</span>`,
            align: /** @type {const} */ ("right"),
            cell: (one) => html`
              <${Menu}
                icon="ellipsis"
                title="Actions for ${one.name}"
                class="icon-only"
                align="right"
                items=${[
                  { label: "Edit", icon: "pencil", run: () => setEdited(one) },
                  { label: "Delete", icon: "trash-2", isBad: true, run: () => drop(one) },
                ]}
              />
            `,
          },
        ]
      : []),
  ];
  return html`
    <${Panel}
      title="Calendars"
      actions=${may("operate") && html`
        <button onClick=${() => setEdited({ name: "", dates: [], yearly: [], weekdays: [], tz: null })}>
          <${Icon} name="plus" />New calendar
        </button>
      `}
    >
      ${list.items.length
        ? html`<${Table} label="Calendars" columns=${columns} rows=${list.items} idOf=${(one) => one.name} />`
        : html`<${Empty} icon="calendar" title="No calendars yet" code=${CODE}>${TEXTS.noCalendarsText}</${Empty}>`}
      ${edited && html`<${CalendarForm} one=${edited} onClose=${() => setEdited(null)} onDone=${list.refresh} />`}
    </${Panel}>
  `;
}

function CalendarForm({ one, onClose, onDone }) {
  const submit = async (values) => {
    await put(`/calendars/${part(values.name || one.name)}`, {
      dates: words(values.dates),
      yearly: words(values.yearly),
      weekdays: words(values.weekdays),
      ...(values.tz ? { tz: values.tz } : {}),
    });
    onDone();
  };
  return html`
    <${FormDialog}
      title=${one.name ? `Edit ${one.name}` : "New calendar"}
      does="Save"
      onClose=${onClose}
      onSubmit=${submit}
    >
      ${!one.name && html`<label class="field"><span>Name</span><input name="name" required autofocus /></label>`}
      <label class="field">
        <span>Days</span>
        <input name="dates" value=${one.dates.join(" ")} placeholder="2026-12-28 2027-05-07" />
      </label>
      <label class="field">
        <span>Every year</span>
        <input name="yearly" value=${one.yearly.join(" ")} placeholder="12-25 01-01" />
      </label>
      <label class="field">
        <span>Weekdays</span>
        <input name="weekdays" value=${one.weekdays.join(" ")} placeholder="sat sun" />
      </label>
      <label class="field">
        <span>Zone</span>
        <input name="tz" value=${one.tz || ""} placeholder="time zone of each schedule" />
      </label>
      ${one.name && html`<p class="dim">${TEXTS.calendarHint}</p>`}
    </${FormDialog}>
  `;
}
