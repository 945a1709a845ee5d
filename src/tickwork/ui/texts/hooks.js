// The sentences of the pages of hooks, in the order of the modules that show them.

export const TEXTS = {
  // pages/hook-form.js
  hookArgumentsBad: (example) => `The arguments must be a JSON object, such as ${example}. Nothing was saved.`,
  hookSaved: (name) => `Saved hook ${name}.`,

  // pages/hook.js
  deleteHookText: "New messages are rejected and the delivery log is deleted. Jobs that it started continue.",
  deleteHookTitle: (name) => `Delete hook ${name}?`,
  hookDeleted: (name) => `Deleted hook ${name}.`,
  hookSample: "Sends a signed message as the other service would.",
  noDeliveries:
    "No deliveries yet. Configure the URL and the secret in the other service, or send a test as above. " +
    "The last 50 deliveries are listed, without their content.",

  // pages/hooks.js
  hooksLead: "URLs at which other services leave signed messages that start jobs or runs.",
  noHooksText: "A hook lets GitHub, Stripe or your own programs start jobs.",
};
