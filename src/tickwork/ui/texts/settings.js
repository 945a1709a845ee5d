// The sentences of the settings, in the order of the modules that show them.

export const TEXTS = {
  // pages/settings-about.js
  thirdParty: "The UI is served as plain files. These components are included under their licences.",

  // pages/settings-audit.js
  auditNames: "Enter complete names: user:ada, not ada.",
  noAuditText: "Changes by users and programs are recorded here.",

  // pages/settings-channel-form.js
  channelQueue: "Queue of its messages. A worker must serve it.",
  channelUrl: "A URL, or a reference to a secret.",
  channelSecret: "A reference to a secret. Without it, messages are not signed.",

  // pages/settings-health.js
  clockAhead: (duration, direction) =>
    `The clock of the store is ${duration} ${direction} the clock of this server. ` +
    "Stored times use the store's clock. Synchronize both with NTP.",
  schedulerLate: (duration) =>
    `A schedule has been due for ${duration} and was not evaluated. Is a worker or server running and not overloaded?`,
  serviceFailed: (service, duration, error) => `Service ${service} failed ${duration} ago: ${error}`,
  healthyText: "The store answers, clocks agree, no schedule is late, and no service failed recently.",

  // pages/settings-keys.js
  revokeKeyText: (prefix) =>
    `Programs that use ${prefix}… are refused immediately, and sessions that began with this key end. ` +
    "This cannot be undone.",
  revokeKeyTitle: (name) => `Revoke key ${name}?`,
  keyRevoked: (name) => `Revoked key ${name}.`,
  noKeysText: "Programs authenticate with a key of their own.",
  keyNameHint: "The audit log shows this name.",
  tokenOnce: "The token is shown only once. Copy it now and store it securely.",

  // pages/settings-notification-form.js
  aboutFailed: "A job failed and has no attempts left.",
  aboutDead: "A dead letter was neither redriven nor discarded for this time.",
  aboutLate: "A job started this much later than it was due.",
  aboutNotStarted: "A job has been due for this time without a start, or expired.",
  aboutSlow: "A job had not ended this long after it was first due.",
  aboutMissed: "An occurrence was not evaluated in time, or catch-up skipped it.",
  aboutBacklog: "The oldest due job of a queue has waited longer than this. Sent again when it recovers.",
  aboutMissing: "No job succeeded within this time: a dead man's switch.",
  noChannelYet: "No channels yet. An administrator must create one first.",

  // pages/settings-notifications.js
  deleteTitle: (kind, name) => `Delete ${kind} ${name}?`,
  deletedNamed: (kind, name) => `Deleted ${kind} ${name}.`,
  savedNamed: (kind, name) => `Saved ${kind} ${name}.`,
  deleteNotificationText: "No more messages are sent for it. Pending events are discarded.",
  noNotificationsText: "A notification sends messages about failed, late or missing jobs to channels.",
  deleteChannelText: "A channel that a notification uses cannot be deleted.",
  noChannelsText: "No channels yet. A channel is a webhook, Slack or mail.",

  // pages/settings-scopes.js
  scopeRead: "Read everything except keys, users, secrets and the audit log",
  scopeEnqueue: "Enqueue jobs and start runs",
  scopeOperate: "Cancel, retry, pause, approve, and edit schedules and dags",
  scopeShell: "Define jobs, schedules and steps that run commands",
  scopeSecrets: "Define jobs, schedules and steps in which built-in tasks use secrets",
  scopeWork: "Claim and finish jobs, for remote workers",
  scopeAdmin: "Everything, including keys, users, secrets and the audit log",
  roleViewer: "can read everything and change nothing",
  roleOperator: "can also start, cancel, retry, pause and approve",
  roleDeveloper: "can also define commands and use secrets",
  roleAdmin: "can do everything",

  // pages/settings-secrets.js
  deleteSecretText: (reference) =>
    `Jobs, hooks and channels that use ${reference} fail, ` +
    "unless the environment of their worker has a variable of this name that secret_env allows.",
  deleteSecretTitle: (name) => `Delete secret ${name}?`,
  secretDeleted: (name) => `Deleted secret ${name}.`,
  secretSaved: (name) => `Saved. Jobs that start from now on get the new value of ${name}.`,
  noSecretsText: "Jobs, hooks and channels refer to secrets by name. Values are stored encrypted and never shown.",
  secretValueHint: "Stored encrypted, and never shown again.",
  secretAllowedHint: "Tasks, dags and queues that may use it. Empty: all jobs.",

  // pages/settings-sessions.js
  endSessionText: (address) => `The browser at ${address} is logged out at its next request.`,
  endSessionTitle: (name) => `End this session of ${name}?`,
  noSessionsText: "No browser is logged in as this user.",

  // pages/settings-users.js
  removeUserText: (name) =>
    `${name} is logged out immediately and cannot log in again. Entries in the audit log remain.`,
  removeUserTitle: (name) => `Remove user ${name}?`,
  userRemoved: (name) => `Removed user ${name}.`,
  userAdded: (name) => `Added user ${name}.`,
  roleChanged: (name, role) => `${name} is now ${role}.`,
  passwordSet: (name) => `Changed the password of ${name}. Sessions with the old password have ended.`,
  noUsersText: "People log in with a name and a password; programs use keys.",

  // pages/settings-account.js
  passwordChanged: "Password changed. Your other sessions have ended.",

  // pages/settings.js
  adminOnly: (part) => `${part}: only for administrators.`,
  noSettingsPage: (name) => `There is no settings page ${name}.`,
  settingsPageFailed: "This page could not be loaded. The server may have been updated: reload the page.",
};
