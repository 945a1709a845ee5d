// A sparkline: a small line chart without axes, described by its label.

import { html } from "../vendor/core.js";

const HEIGHT = 20;

/**
 * Points are counts, oldest first; null is unknown. `label` is read out and shown as a tooltip.
 * @param {{points: (number | null)[], label: string, tone?: string}} props
 */
export function Spark({ points, label, tone = "run" }) {
  const most = Math.max(1, ...points.map((one) => one ?? 0));
  const y = (value) => (HEIGHT - (value / most) * (HEIGHT - 2) - 0.5).toFixed(2);
  const stretches = known(points);
  return html`
    <svg
      class="spark"
      data-tone=${tone}
      role="img"
      aria-label=${label}
      viewBox="0 0 ${Math.max(1, points.length - 1)} ${HEIGHT}"
      preserveAspectRatio="none"
    >
      <title>${label}</title>
      ${stretches.map(
        (all) => html`
          <path
            class="ground"
            d="M${all[0].at},${HEIGHT} ${all.map((one) => `L${one.at},${y(one.value)}`).join(" ")} L${all.at(-1)
              .at},${HEIGHT} Z"
          />
        `,
      )}
      ${stretches.map(
        (all) => html`<path class="line" d="M${all.map((one) => `${one.at},${y(one.value)}`).join(" L")}" />`,
      )}
    </svg>
  `;
}

/** Consecutive known points. @param {(number | null)[]} points @returns {{at: number, value: number}[][]} */
function known(points) {
  /** @type {{at: number, value: number}[][]} */
  const stretches = [];
  for (const [at, value] of points.entries()) {
    if (value === null || value === undefined) continue;
    if (stretches.at(-1)?.at(-1).at === at - 1) stretches.at(-1).push({ at, value });
    else stretches.push([{ at, value }]);
  }
  return stretches;
}
