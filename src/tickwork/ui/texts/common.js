// The sentences of what all pages share, in the order of the modules that show them.

export const TEXTS = {
  // app.js
  pageFilesGone: "The server does not answer, or it was updated and no longer has the files of this page.",
  noSuchPage: (path) => `There is no page ${path}.`,

  // lib/api.js
  serverStatus: (status) => `The server answered with status ${status}.`,
  serverUnreachable: "The server does not answer. This page may be out of date. Retrying.",

  // lib/query.js
  fieldState: "state of the job",
  fieldQueue: "queue of the job",
  fieldTask: "task; send_* matches all tasks that begin with send_",
  fieldError: "words in the last error",
  fieldAge: "time since creation",
  fieldLabel: "one of the labels",
  fieldKey: "key",
  fieldCollection: "collection",
  fieldTenant: "tenant",
  fieldWorker: "worker that runs or ran the job",
  fieldRun: "run that the job is a step of",
  fieldParent: "parent job",
  fieldCreator: "creator: user:ada, key:deploy, schedule:nightly",
  fieldIs: "dead: failed, neither redriven nor discarded",
  fieldAfter: "created after this time",
  fieldBefore: "created before this time",
  unknownField: (field) => `Unknown field "${field}".`,
  emptyField: (field, meaning) => `Enter a value for ${field}: ${meaning}.`,
  unknownIs: (value) => `Unknown value is:${value}. Use is:dead.`,
  unknownState: (state, states) => `Unknown state "${state}". Known states: ${states}.`,
  repeatedField: (field) => `${field}: appears twice. Only the first is used.`,
  badAge: (value) => `age:${value} is not an age. Write age:<24h for the last day, or age:>1h for older than an hour.`,
  badTime: (field, value, example) => `${field}:${value} is not a time. Write ${example}:2026-11-01T12:00:00Z.`,

  // parts/field-changes.js
  noChange: "Nothing changed.",
  noChangeDetails: "No details are recorded.",

  // parts/rule-input.js
  delayHint: "this long after the last run has ended",

  // parts/app-shell.js
  liveOff: "Updates are paused. Click to resume.",
  liveOn: "Changes appear automatically. Click to pause.",

  // parts/loading-and-errors.js
  faultTitle: "This page has an error",
  faultText:
    "The page cannot show the response of the server. Other pages and the command line still work. " +
    "Please report it with the messages of the browser console.",
  notLoadedTitle: "This page could not be loaded",
  notLoadedText: "Reload the page; the URL does not change.",
  unreachableTitle: "The server does not answer",
  unreachableText: "Retrying automatically. Is the server running? tickwork server",
  forbiddenTitle: "Permission denied",
  forbiddenText: "Ask an administrator of this server for a role with this permission.",
  missingTitle: "Not found",
  missingText: "It does not exist, or was pruned after its retention.",
  failedTitle: "Something went wrong",
  failedText: "Try again. The log of the server has details.",

  // parts/operation-progress.js
  operationStopping: "Stopping after the current page. Changes so far are kept.",

  // parts/params-form.js
  notJson: (name, problem) => `${name} is not valid JSON: ${problem}. Strings need double quotes.`,
};
