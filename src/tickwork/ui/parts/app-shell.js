// The frame around every page: navigation, search, connection state, theme and user menu.

import { html, signal, useEffect } from "../vendor/core.js";
import { useKeys } from "../lib/keyboard.js";
import { pause, paused, state } from "../lib/live.js";
import { theme, zone } from "../lib/browser-prefs.js";
import { go, place } from "../lib/router.js";
import { logOut, may, session } from "../lib/session.js";
import { TEXTS } from "../texts/common.js";
import { ROUTES } from "../routes.js";
import { Questions } from "./dialog.js";
import { Help } from "./shortcuts-dialog.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { Palette } from "./command-palette.js";
import { Toasts } from "./toast.js";

const isMenuOpen = signal(false);
const opened = signal(/** @type {"palette" | "help" | null} */ (null));
const close = () => (opened.value = null);

export const openPalette = () => (opened.value = "palette");

/** @param {{children: any}} props */
export function Frame({ children }) {
  const pages = ROUTES.filter((route) => route.nav);
  useKeys([
    { keys: "Ctrl+k", does: "search everything", run: openPalette },
    { keys: "/", does: "search", run: focusSearch },
    { keys: "?", does: "show shortcuts", run: () => (opened.value = "help") },
    ...pages.map((route) => ({ keys: `g ${route.nav.key}`, does: `go to ${route.title}`, run: () => go(route.path) })),
  ]);
  useEffect(() => {
    isMenuOpen.value = false;
    document.getElementById("content")?.scrollTo?.(0, 0);
  }, [place.value.path]);
  return html`
    <div class="frame" data-menu=${isMenuOpen.value}>
      <a
        class="skip"
        href="#content"
        onClick=${(event) => {
          event.preventDefault();
          document.getElementById("content").focus();
        }}
      >
        Skip to content
      </a>
      <header class="bar">
        <button
          class="bare only-phone"
          aria-label="Pages"
          aria-expanded=${isMenuOpen.value}
          onClick=${() => (isMenuOpen.value = !isMenuOpen.value)}
        >
          <${Icon} name="menu" />
        </button>
        <a class="brand" href="#/">
          <img src=${new URL("../icon.svg", import.meta.url).pathname} alt="" width="20" height="20" />
          <span>Tickwork</span>
        </a>
        <button class="find" onClick=${openPalette}>
          <${Icon} name="search" />
          <span>Search jobs, schedules, pages</span>
          <kbd>Ctrl K</kbd>
        </button>
        <div class="bar-end"><${Live} /><${Look} /><${Who} /></div>
      </header>
      <nav class="side" aria-label="Pages">
        ${pages.map((route) => html`<${NavLink} route=${route} />`)}
        <div class="side-end">
          <button class="bare" onClick=${() => (opened.value = "help")}>
            <${Icon} name="circle-help" />
            <span>Shortcuts</span>
            <kbd>?</kbd>
          </button>
          <a class="nav" href=${new URL("../../../api/v1/docs", import.meta.url).pathname}>
            <${Icon} name="code" />
            <span>API</span>
          </a>
        </div>
      </nav>
      <main id="content" tabindex="-1">${children}</main>
      <nav class="tabs-phone" aria-label="Pages for on call">
        ${pages.filter((route) => route.nav.phone).map((route) => html`<${NavLink} route=${route} />`)}
      </nav>
      <${Toasts} />
      <${Questions} />
      ${opened.value === "palette" && html`<${Palette} onClose=${close} />`}
      ${opened.value === "help" && html`<${Help} onClose=${close} />`}
    </div>
  `;
}

function NavLink({ route }) {
  const path = place.value.path;
  const isHere =
    route.path === "/"
      ? path === "/"
      : path === route.path ||
        path.startsWith(`${route.path}/`) ||
        (route.path === "/dags" && path.startsWith("/runs/"));
  return html`
    <a class="nav" href="#${route.path}" aria-current=${isHere ? "page" : undefined} title="g ${route.nav.key}">
      <${Icon} name=${route.nav.icon} />
      <span>${route.title}</span>
    </a>
  `;
}

/** Focus the search of the page, or open the command palette if it has none. */
function focusSearch() {
  const own = /** @type {HTMLInputElement | null} */ (document.querySelector("#content input[type=search]"));
  if (own) own.focus();
  else openPalette();
}

const SAID = { live: "Live", paused: "Paused", connecting: "Connecting", off: "Disconnected" };

function Live() {
  const said = SAID[state.value];
  return html`
    <button
      class="live"
      data-live=${state.value}
      aria-pressed=${paused.value}
      title=${paused.value ? TEXTS.liveOff : TEXTS.liveOn}
      onClick=${() => pause(!paused.value)}
    >
      <i></i>
      <span>${said}</span>
    </button>
  `;
}

function Look() {
  const themes = [
    ["auto", "monitor", "System"],
    ["light", "sun", "Light"],
    ["dark", "moon", "Dark"],
  ];
  return html`
    <${Menu}
      icon=${themes.find(([id]) => id === theme.value)?.[1] || "monitor"}
      title="Theme"
      align="right"
      class="icon-only"
      items=${[
        ...themes.map(([id, icon, label]) => ({
          label,
          icon,
          isOn: theme.value === id,
          run: () => (theme.value = id),
        })),
        "line",
        { label: "Local time", icon: "clock", isOn: zone.value === "local", run: () => (zone.value = "local") },
        { label: "UTC", icon: "clock", isOn: zone.value === "utc", run: () => (zone.value = "utc") },
      ]}
    />
  `;
}

function Who() {
  const role = may("admin") ? "administrator" : may("operate") ? "operator" : "read-only";
  return html`
    <${Menu}
      icon="user"
      title="You"
      align="right"
      class="icon-only"
      items=${[
        { label: `${session.value.who}: ${role}`, icon: "shield-check", run: () => go("/settings") },
        { label: "Log out", icon: "log-out", run: logOut },
      ]}
    />
  `;
}
