// The sentences of the pages of workers, in the order of the modules that show them.

export const TEXTS = {
  // pages/worker.js
  workerQuiet: "Claiming is stopped. Running jobs continue.",
  workerStopping: "The worker finishes its running jobs within the grace period, then ends.",

  // pages/workers.js
  stopWorkerText: (jobs) =>
    `The worker finishes its ${jobs} within the grace period, then ends. A process manager may restart it.`,
  workerAsked: (name, change) => `${name} ${change} at its next heartbeat.`,
  leaseHelp: "The worker renews its lease with each heartbeat. When the lease expires, its jobs are reclaimed.",
};
