// The table of pages: the URL, title and navigation entry of each, and how its module is loaded.

/**
 * @typedef {{path: string, title: string, load: () => Promise<{default: any}>, nav?: {icon: string, key: string,
 *   group?: string, phone?: boolean}, takes?: string}} PageRoute
 */

/** @type {PageRoute[]} */
export const ROUTES = [
  {
    path: "/",
    title: "Overview",
    load: () => import("./pages/overview.js"),
    nav: { icon: "layout-dashboard", key: "o", phone: true },
  },
  { path: "/jobs", title: "Jobs", load: () => import("./pages/jobs.js"), nav: { icon: "list", key: "j", phone: true } },
  { path: "/jobs/:id", title: "Job", load: () => import("./pages/job.js") },
  { path: "/dags", title: "Dags", load: () => import("./pages/dags.js"), nav: { icon: "workflow", key: "d" } },
  { path: "/dags/:name*", title: "Dag", load: () => import("./pages/dag.js") },
  { path: "/runs/:id", title: "Run", load: () => import("./pages/run.js") },
  {
    path: "/schedules",
    title: "Schedules",
    load: () => import("./pages/schedules.js"),
    nav: { icon: "calendar-clock", key: "s" },
  },
  { path: "/schedules/:name*", title: "Schedule", load: () => import("./pages/schedule.js") },
  {
    path: "/queues",
    title: "Queues",
    load: () => import("./pages/queues.js"),
    nav: { icon: "layers-2", key: "q", phone: true },
  },
  { path: "/workers", title: "Workers", load: () => import("./pages/workers.js"), nav: { icon: "server", key: "w" } },
  { path: "/workers/:id*", title: "Worker", load: () => import("./pages/worker.js") },
  {
    path: "/dead",
    title: "Dead letters",
    load: () => import("./pages/dead.js"),
    nav: { icon: "skull", key: "x", phone: true },
  },
  { path: "/hooks", title: "Hooks", load: () => import("./pages/hooks.js"), nav: { icon: "webhook", key: "h" } },
  { path: "/hooks/:name*", title: "Hook", load: () => import("./pages/hook.js") },
  {
    path: "/settings",
    title: "Settings",
    load: () => import("./pages/settings.js"),
    nav: { icon: "settings", key: "," },
  },
];
