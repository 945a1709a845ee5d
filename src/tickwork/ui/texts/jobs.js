// The sentences of the pages of jobs, in the order of the modules that show them.

export const TEXTS = {
  // pages/job-actions.js
  jobDueNow: "The job is due now.",
  jobRetried: "The job is queued again.",
  cancelRunningText: "The job is asked to stop, and is cancelled when it does.",
  cancelQueuedText: "The job does not start. It can be retried later.",
  cancelRequested: "Asked the job to stop.",
  jobCancelled: "The job is cancelled.",
  jobRescheduled: "The job is rescheduled.",
  rescheduleText: "Changes when the job is due. Its deadline moves by the same time.",

  // pages/job-attempts.js
  neverStarted: "The job ended before a worker started it.",
  attemptsAppearHere: "Attempts appear here when a worker starts them.",

  // pages/job-details.js
  noResultText: (state) => `The job ended as ${state}; only succeeded jobs have a result.`,
  resultLater: "The result appears here when the job has succeeded.",
  returnedNone: "The task returned None.",

  // pages/job-logs.js
  noOutputText: "Printed text and log records of a task are stored with the job.",
  outputLive: "Output appears here as it is written.",

  // pages/job-rerun.js
  argumentsNotObject: "The arguments must be a JSON object.",
  jsonErrorAt: (line, column) => `Invalid JSON at line ${line}, column ${column}.`,
  argumentMissing: (name) => `Missing argument ${name}.`,
  argumentUnknown: (name) => `The task has no argument ${name}.`,
  nothingEnqueued: (problem) => `${problem} Nothing was enqueued.`,
  enqueued: (task) => `Enqueued ${task}.`,
  rerunText: "Enqueues a new job with these arguments. The original job does not change.",

  // pages/job.js
  stillRunning: "Asked to stop; still running.",

  // pages/jobs-bulk-actions.js
  bulkRetry: "The jobs are queued again with a full set of attempts.",
  bulkNoRetry: "None of these jobs can be retried: only jobs that ended without success can.",
  bulkCancel: "Waiting jobs do not start. Running jobs are asked to stop.",
  bulkNoCancel: "None of these jobs can be cancelled: all have ended.",
  bulkReschedule: "Changes when the jobs are due. Only waiting jobs can be rescheduled.",
  bulkNoReschedule: "None of these jobs can be rescheduled: none is waiting.",
  bulkDiscard: "The jobs stay failed until they are pruned, but are no longer dead letters.",
  bulkNoDiscard: "None of these jobs is a dead letter.",
  bulkRateHint: "Jobs that become due per period. Empty: no limit.",

  // pages/jobs-saved-views.js
  viewDeleted: (name) => `Deleted view ${name}.`,

  // pages/jobs.js
  cannotSelectAll: 'To select all matching jobs, use error:"…" instead of free text.',
  restrictFirst: "Filter the list to select all matching jobs.",
  cancelJobText: (task, id) => `${task} ${id} does not start, or is asked to stop if it is running.`,
  tooManyNames: "Too many tasks and keys begin with this text; some are left out. Enter more of the name.",
  searchMore: "Each search scans a limited number of jobs. Older jobs exist.",
  noJobsText: "New jobs appear here automatically.",
};
