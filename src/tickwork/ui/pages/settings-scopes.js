// What scopes and roles allow, in the words of docs/server.md.

/** @type {Record<string, string>} */
export const SCOPES = {
  read: "Look at everything but keys, users, secrets and the audit log",
  enqueue: "Make jobs and start runs",
  operate: "Cancel, retry, pause, edit schedules and dags, approve",
  shell: "Define jobs, schedules and steps that run commands",
  "use-secrets": "Define jobs, schedules and steps in which built-in tasks are handed secrets",
  work: "Claim and finish jobs, as workers in other languages do",
  metrics: "Scrape /metrics",
  admin: "Everything, with keys, users, secrets and the audit log",
};

/** @type {Record<string, string>} */
export const ROLES = {
  viewer: "looks at everything, changes nothing",
  operator: "also starts, cancels, retries, pauses and approves",
  developer: "also defines commands, and work that is handed secrets",
  admin: "may do everything",
};
