// The sentences of the pages of dead letters and operations, in the order of the modules that show them.

export const TEXTS = {
  // pages/dead-operations.js
  operationsText:
    "An operation changes many jobs. Servers and workers execute it page by page. " +
    "It is listed here for 30 days after its end.",
  operationStopping: "Stopping after the current page. Changes so far are kept.",

  // pages/dead-redrive-dialog.js
  redriveStarted: (count, rate) => `Redriving ${count}${rate}. The operation continues if you close this page.`,
  redriveText:
    "The jobs are queued again with their original arguments and a full set of attempts. Has the cause been fixed?",
  redriveRateHint: "Jobs that become due per period: 50/s, 100/15m",
  redriveQueue:
    "Each job returns to its own queue. To run them in another queue, first create a gate that diverts them:",
  discardStarted: (count) => `Discarding ${count}. The jobs stay readable until they are pruned.`,
  discardText:
    "The jobs stay failed but are no longer dead letters, and no notification mentions them. " +
    "Until they are pruned, each can still be retried.",
  deadGone: "No jobs left: they were redriven or discarded meanwhile.",

  // pages/dead.js
  deadLead: "Failed jobs that were neither redriven nor discarded.",
  operationsLead: "Changes to many jobs. They continue if you close this page.",
  noDeadText: "Failed jobs appear here when they have no attempts left.",
  deadPartial: (count) =>
    `Only the latest ${count} dead letters are grouped here. An action on a group applies to all of its jobs.`,
};
