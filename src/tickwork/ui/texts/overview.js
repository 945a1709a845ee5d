// The sentences of the overview, in the order of the modules that show them.

export const TEXTS = {
  // pages/overview-charts.js
  noThroughput: "No jobs were enqueued or finished.",
  noLatency: "No attempts started or ended.",

  // pages/overview-failures.js
  retryGroupText: (count, task) =>
    `${count} of ${task} failed with this error. If the cause is not fixed, the retry fails again.`,
  retryGroupGone: "These jobs are no longer dead letters: they were redriven or discarded meanwhile.",

  // pages/overview-metrics.js
  enqueuedHelp: (period) => `Enqueued jobs per minute over ${period}; below, the total. Opens the latest jobs.`,
  succeededHelp: (period) =>
    `Succeeded jobs per minute over ${period}. If fewer succeed than are enqueued, queues grow. Opens these jobs.`,
  failedHelp: (period) =>
    `Share of finished jobs that failed over ${period}. Attempts that are retried do not count. Opens these jobs.`,
  waitHelp: (period) =>
    `Of the jobs that started over ${period}, 95 % waited at most this long after they were due. If this is long, ` +
    "workers have too few slots or a limit holds jobs. Opens the queues.",
  runHelp: (period) =>
    `Of the attempts that ended over ${period}, 95 % took at most this long. Opens the running jobs.`,
  oldestDueHelp: (queue) =>
    `How long the oldest due job has waited, in queue ${queue}; below, the number of due jobs. Opens the queues.`,
  noneDueHelp: "How long the oldest due job has waited: no job is due. Opens the queues.",
  runningHelp:
    "Running jobs, of the slots of all workers. If all slots are busy, due jobs wait. Opens the running jobs.",
  workersHelp: "Live workers and their slots. Opens the workers.",
  noWorkersHelp: "No live worker: no job runs until you start one: tickwork worker FILE",

  // pages/overview-lists.js
  noNextRuns: "No scheduled runs.",

  // pages/overview.js
  noJobsYet: "No jobs yet. Define a task, enqueue it, and a worker runs it.",
};
