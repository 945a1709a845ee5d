// Descriptions of scopes and roles, as in docs/server.md.

import { TEXTS } from "../texts/settings.js";

/** @type {Record<string, string>} */
export const SCOPES = {
  read: TEXTS.scopeRead,
  enqueue: TEXTS.scopeEnqueue,
  operate: TEXTS.scopeOperate,
  shell: TEXTS.scopeShell,
  "use-secrets": TEXTS.scopeSecrets,
  work: TEXTS.scopeWork,
  metrics: "Read /metrics",
  admin: TEXTS.scopeAdmin,
};

/** @type {Record<string, string>} */
export const ROLES = {
  viewer: TEXTS.roleViewer,
  operator: TEXTS.roleOperator,
  developer: TEXTS.roleDeveloper,
  admin: TEXTS.roleAdmin,
};
