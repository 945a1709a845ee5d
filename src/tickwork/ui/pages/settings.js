// The settings page: a list of parts, of which the URL selects one. Parts that need a higher role are hidden.

import { html, useEffect, useState } from "../vendor/core.js";
import { href, place } from "../lib/router.js";
import { may } from "../lib/session.js";
import { TEXTS } from "../texts/settings.js";
import { Icon } from "../parts/icon.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Page } from "../parts/page-layout.js";

/** @type {{id: string, title: string, icon: string, takes?: "admin", load: () => Promise<{default: any}>}[]} */
const PARTS = [
  { id: "you", title: "You", icon: "user", load: () => import("./settings-account.js") },
  { id: "keys", title: "API keys", icon: "key-round", takes: "admin", load: () => import("./settings-keys.js") },
  { id: "users", title: "Users", icon: "users", takes: "admin", load: () => import("./settings-users.js") },
  { id: "notifications", title: "Notifications", icon: "bell", load: () => import("./settings-notifications.js") },
  { id: "secrets", title: "Secrets", icon: "lock", takes: "admin", load: () => import("./settings-secrets.js") },
  { id: "audit", title: "Audit log", icon: "scroll-text", takes: "admin", load: () => import("./settings-audit.js") },
  {
    id: "configuration",
    title: "Configuration",
    icon: "sliders-horizontal",
    takes: "admin",
    load: () => import("./settings-config.js"),
  },
  { id: "health", title: "Health", icon: "activity", load: () => import("./settings-health.js") },
  { id: "about", title: "About", icon: "info", load: () => import("./settings-about.js") },
];

export default function Settings() {
  const said = place.value.query.part || PARTS[0].id;
  const allowed = PARTS.filter((part) => !part.takes || may(part.takes));
  const chosen = allowed.find((part) => part.id === said);
  useEffect(() => {
    document.querySelector(".settings-side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [said]);
  return html`
    <${Page} title="Settings" name=${chosen ? `${chosen.title} · Settings` : "Settings"}>
      <div class="settings">
        <nav class="settings-side" aria-label="Settings">
          ${allowed.map(
            (part) => html`
              <a
                key=${part.id}
                class="nav"
                href=${href("/settings", { part: part.id })}
                aria-current=${part === chosen ? "page" : undefined}
              >
                <${Icon} name=${part.icon} />
                <span>${part.title}</span>
              </a>
            `,
          )}
        </nav>
        <div class="settings-part">
          ${chosen ? html`<${Part} key=${chosen.id} part=${chosen} />` : html`<${Missing} said=${said} />`}
        </div>
      </div>
    </${Page}>
  `;
}

function Missing({ said }) {
  const isThere = PARTS.some((part) => part.id === said);
  const problem = isThere
    ? { status: 403, message: TEXTS.adminOnly(PARTS.find((part) => part.id === said).title) }
    : { status: 404, message: TEXTS.noSettingsPage(said) };
  return html`<${Trouble} problem=${problem} />`;
}

function Part({ part }) {
  const [shown, setShown] = useState({ view: /** @type {any} */ (null), isBroken: false });
  useEffect(() => {
    part.load().then(
      (module) => setShown({ view: module.default, isBroken: false }),
      () => setShown({ view: null, isBroken: true }),
    );
  }, []);
  if (shown.isBroken) {
    return html`
      <${Trouble}
        problem=${{
          status: 0,
          message: TEXTS.settingsPageFailed,
        }}
        onRetry=${() => location.reload()}
      />
    `;
  }
  return shown.view ? html`<${shown.view} />` : html`<${Loading} />`;
}
