// Tabs whose selection is part of the URL.

import { html } from "../vendor/core.js";
import { place, setQuery } from "../lib/router.js";

/** @param {{tabs: {id: string, label: any, count?: any}[], name?: string, label?: string}} props */
export function Tabs({ tabs, name = "tab", label = "Tabs" }) {
  const chosen = place.value.query[name] || tabs[0].id;
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length].id;
    setQuery({ [name]: next === tabs[0].id ? undefined : next });
    event.currentTarget.querySelector(`[data-tab="${next}"]`).focus();
  };
  return html`
    <div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
      ${tabs.map(
        (tab) => html`
          <button
            key=${tab.id}
            role="tab"
            data-tab=${tab.id}
            aria-selected=${tab.id === chosen}
            tabindex=${tab.id === chosen ? 0 : -1}
            onClick=${() => setQuery({ [name]: tab.id === tabs[0].id ? undefined : tab.id }, { push: true })}
          >
            ${tab.label}
            ${tab.count !== undefined && html`<span class="count">${tab.count}</span>`}
          </button>
        `,
      )}
    </div>
  `;
}

/** The selected tab. @param {{id: string}[]} tabs @param {string} [name] */
export const chosenTab = (tabs, name = "tab") => {
  const said = place.value.query[name];
  return tabs.some((tab) => tab.id === said) ? said : tabs[0].id;
};
