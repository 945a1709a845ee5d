// The sentences of the pages of queues, limits, gates and tenants, in the order of the modules that show them.

export const TEXTS = {
  // pages/queues-gate-form.js
  pauseShort: "Start no matching jobs.",
  pauseEffect: "do not start. Running jobs continue; new jobs wait.",
  slowShort: "Limit the rate of starts.",
  slowEffect: (rate) => `start at most at ${rate}. The others wait.`,
  divertShort: "Move them to another queue.",
  divertEffect: (queue) => `move to queue ${queue} when they would start. Make sure that a worker serves it.`,
  dropShort: "End them without running.",
  dropEffect: "end as dropped instead of starting. This cannot be undone by removing the gate.",
  gateCreated: (name) => `Created gate: ${name}.`,

  // pages/queues-gates.js
  noGatesText: "A gate pauses, slows down, diverts or drops some of the jobs.",
  removeGatesTitle: (count) => `Remove ${count} gates?`,
  removeGateTitle: (name) => `Remove gate ${name}?`,
  removeGatesText: (names) =>
    `These gates match the same jobs and are removed together: ${names}. Held jobs may start.`,
  removeGateText: (count) => `Held jobs may start immediately: ${count} now.`,
  gateRemoved: (names) => `Removed ${names}. Held jobs may start.`,

  // pages/queues-limits.js
  noLimitsText:
    "Limits are declared in code and stored here by the first worker that has them. " +
    "You can change them while jobs wait.",
  breakerOpenText:
    "Too many jobs failed. After its pause, the breaker lets one job try: if it succeeds, all jobs may start; " +
    "if it fails, the pause begins again.",
  breakerClosedText: "The breaker is closed: jobs start. It opens when too many fail.",
  moreKeys: "Only the keys with the most held jobs are shown.",
  limitChanged: (name, value) => `Limit ${name} is now ${value}.`,
  resetLimitText: (value) => `The limit becomes ${value} again, also for waiting jobs.`,
  removeLimitText: "Code does not declare this limit, so it is removed. Held jobs may start.",
  resetLimitTitle: (name) => `Reset limit ${name}?`,
  limitReset: "The limit is reset.",
  changeLimitText: "Applies immediately, also to waiting jobs, and overrides the code until it is reset.",

  // pages/queues-table.js
  noQueuesText: "A queue exists as soon as it contains a job.",
  heldHelp: "Held by limits and gates: show which",
  wantedWorkers: (workers) => `${workers} would start all due jobs within 30 s.`,
  unrunnableHelp: "No live worker has their task, labels or resources",
  queueResumed: (queue) => `Resumed queue ${queue}. Held jobs may start.`,
  noneWaiting: (queue) => `No jobs are waiting in queue ${queue}.`,
  cancelWaitingText: (queue) =>
    `All waiting jobs of queue ${queue} are cancelled, including delayed and held jobs. Running jobs continue. ` +
    "Cancelled jobs can be retried until they are pruned.",

  // pages/queues-tenants.js
  equalTenants: "All tenants have weight 1",
  equalTenantsText: "Tenants with another weight are listed here.",
  weightReset: (name) => `Tenant ${name} has weight 1.`,
  weightSet: (name) => `Set the weight of tenant ${name}.`,
  weightText:
    "Tenants take turns in each queue. While both have due jobs, " +
    "a tenant of weight 3 starts three jobs for each job of a tenant of weight 1. Applies immediately, " +
    "also to waiting jobs.",

  // pages/queues.js
  breakerProbing: "One job is probing; if it succeeds, all jobs may start.",
};
