// The sentences of the pages of dags and runs, in the order of the modules that show them.

export const TEXTS = {
  // pages/dag-start-dialog.js
  runStarted: (dag) => `Started a run of ${dag}.`,

  // pages/dag-versions.js
  firstVersion: "First version",
  noEarlierVersion: "There is no earlier version to compare with.",
  stepsUnchanged: "No step changed",

  // pages/dag.js
  deleteDagText:
    "Schedules and callers can no longer start it. Existing runs continue and remain. " +
    "If the dag is stored again, its versions are kept.",
  deleteDagTitle: (name) => `Delete dag ${name}?`,
  dagDeleted: (name) => `Deleted dag ${name}.`,
  noSteps: "No steps",
  noStepsText: "The function of this dag calls no task.",
  noSuchStepInVersion: "This version does not have this step.",
  kindMapped: "mapped: one job per element",
  kindApproval: "approval: waits for a person",
  mayFail: "yes: the run can succeed without it",
  runsAppearHere: "Runs of this dag appear here.",

  // pages/dags.js
  noDagsText: "Workers store the dags of their code when they start.",

  // pages/run-actions.js
  cancelRunText:
    "Waiting steps are cancelled, running steps are asked to stop, and cleanup steps run. You can rerun it later.",
  cancelRunTitle: (dag) => `Cancel this run of ${dag}?`,
  runCancelled: "The run is cancelled; its running steps are asked to stop.",
  rerunningFailed: "Rerunning the failed steps and their dependents. Other steps keep their results.",
  rerunFromText: (step) => `${step} and all steps that depend on it run again. Other steps keep their results.`,
  rerunFromTitle: (step) => `Rerun from ${step}?`,
  rerunningFrom: (step) => `Rerunning from ${step}.`,
  rerunKeeps: "The run keeps its id and version. Other steps keep their results.",
  approved: "Approved: the steps that wait for it continue.",
  rejected: "Rejected: the step failed and its dependents are skipped.",

  // pages/run-graph.js
  graphLabel: "Graph of the steps. Arrow keys follow the edges; the Steps tab lists them.",

  // pages/run-step-details.js
  noInstancesIn: (state) => `No instances in state ${state}.`,
  noInstancesYet: "No instances yet: they are known when the list that it maps over is.",

  // pages/run-timeline.js
  timelineLater: "Bars appear here when the first step starts.",

  // pages/run.js
  noSuchStepInRun: "This run does not have this step.",
  runResultLater: "The result appears here when the run has succeeded.",
};
