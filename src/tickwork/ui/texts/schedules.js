// The sentences of the pages of schedules, in the order of the modules that show them.

export const TEXTS = {
  // pages/schedule-backfill.js
  backfillText:
    "Starts the occurrences of a period, in no fixed order. " +
    "Occurrences that were backfilled in the last 30 days are skipped unless they failed.",
  backfillZone: (browser, rule) => `In this browser's time zone (${browser}). The rule uses ${rule}.`,
  noOccurrences: "No occurrences in this period.",

  // pages/schedules-calendars.js
  deleteCalendarText: "A calendar that a schedule uses cannot be deleted.",
  calendarDeleted: (name) => `Deleted calendar ${name}.`,
  noCalendarsText: "A calendar is a set of days on which schedules that use it do not fire.",
  calendarHint: "Affects the next occurrences of all schedules that use it.",

  // pages/schedules-busiest-minutes.js
  moreSchedules: "Not all schedules are counted here.",
  densityLabel: (most) => `Occurrences per minute of the next 24 hours; at most ${most} in one minute`,

  // pages/schedule-form.js
  argumentsNotJson: (problem) => `The arguments are not valid JSON: ${problem}`,
  argumentsNotObject: 'The arguments must be a JSON object, such as {"to": "ada"}.',
  scheduleChanged: (name) => `Saved schedule ${name}.`,
  scheduleCreated: (name) => `Created schedule ${name}.`,
  scheduleConflict:
    "This schedule was changed since you opened it. Close the form, check the current values, and edit again.",
  scheduleExists: (name) => `Schedule ${name} already exists. Open it, or choose another name.`,
  declaredInCode: "Declared in code: the next start of a worker restores the declared values. Change the code as well.",

  // pages/schedule.js
  calendarMissing:
    "The schedule uses a calendar that does not exist, so it does not fire. Create the calendar or edit the schedule.",
  deleteDeclaredText: "Its history is deleted. It is created again when a worker starts whose code declares it.",
  deleteScheduleText: "Its history is deleted. Its jobs continue.",
  scheduleDeleted: (name) => `Deleted schedule ${name}.`,
  scheduleResumed: (name) => `Resumed schedule ${name}.`,
  definitionCopied: "Copied. `tickwork apply FILE` reads JSON as well as YAML.",
  occurrencesAppearHere: "The outcome of each occurrence appears here.",

  // pages/schedules.js
  scheduleStarted: (name) => `Started ${name}.`,
  schedulePaused: (name, period) => `Paused ${name}${period}.`,
  pauseText:
    "The schedule starts no new runs; active runs continue. Occurrences that become due are missed; " +
    "its catch-up policy applies when it resumes.",
  noSchedulesText: "A schedule starts a task or a dag by a rule. Each occurrence fires once, even after failures.",
  clearFilter: (count) => `Clear the filter to see all ${count}.`,
};
