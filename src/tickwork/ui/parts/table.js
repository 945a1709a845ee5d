// Tables: rows that open and can be selected, also as a range, and keyboard navigation with j and k.

import { html, useEffect, useRef, useState } from "../vendor/core.js";
import { useKeys } from "../lib/keyboard.js";

/**
 * @typedef {{id: string, title: any, cell: (row: any) => any, align?: "right", width?: string, from?:
 *   "phone"|"tablet"|"desk", label?: string}} Column
 */

/** The selection: the rows in `ids`, or all matching ones (`isAll`). */
export function useSelection() {
  const [chosen, setChosen] = useState({ ids: /** @type {Set<string>} */ (new Set()), isAll: false });
  const last = useRef(/** @type {string | null} */ (null));
  return {
    ...chosen,
    size: chosen.ids.size,
    clear: () => setChosen({ ids: new Set(), isAll: false }),
    all: () => setChosen((now) => ({ ...now, isAll: true })),
    set: (ids) => setChosen({ ids: new Set(ids), isAll: false }),
    /** Deselect rows that are not displayed. @param {string[]} ids */
    keep: (ids) => setChosen((now) => kept(now, new Set(ids))),
    /** @param {string} id @param {string[]} order @param {boolean} isRange */
    toggle(id, order, isRange = false) {
      setChosen((now) => {
        const ids = new Set(now.ids);
        const from = isRange && last.current !== null ? order.indexOf(last.current) : -1;
        const to = order.indexOf(id);
        if (from >= 0) for (const one of order.slice(Math.min(from, to), Math.max(from, to) + 1)) ids.add(one);
        else if (ids.has(id)) ids.delete(id);
        else ids.add(id);
        last.current = id;
        return { ids, isAll: false };
      });
    },
  };
}

function kept(chosen, shown) {
  const ids = [...chosen.ids].filter((id) => shown.has(id));
  return ids.length === chosen.ids.size ? chosen : { ...chosen, ids: new Set(ids) };
}

/**
 * @param {{columns: Column[], rows: any[], idOf?: (row: any) => string, hrefOf?: (row: any) => string | null,
 *   onOpen?: (row: any) => void, selection?: ReturnType<typeof useSelection>, label: string, keys?:
 *   import("../lib/keyboard.js").Binding[], onKey?: (name: string, row: any) => void, rowKeys?: {keys: string, does:
 *   string, run: (row: any) => void}[], toneOf?: (row: any) => string | undefined, children?: any}} props
 */
export function Table({
  columns,
  rows,
  idOf = (row) => row.id,
  hrefOf,
  onOpen,
  selection,
  label,
  rowKeys = [],
  toneOf,
  children,
}) {
  const [focus, setFocus] = useState(/** @type {string | null} */ (null)); // the row that keys act on
  const last = useRef(-1);
  const body = useRef(/** @type {HTMLTableSectionElement | null} */ (null));
  const order = rows.map(idOf);
  const open = (row) => (onOpen ? onOpen(row) : hrefOf && hrefOf(row) && (location.hash = hrefOf(row)));
  const at = focus === null ? -1 : order.indexOf(focus);
  if (at >= 0) last.current = at;
  const step = (by) => {
    const from = at >= 0 || by < 0 ? last.current : last.current - 1; // after a deleted row, its successor
    const next = Math.max(0, Math.min(rows.length - 1, from + by));
    const row = /** @type {HTMLElement | undefined} */ (body.current?.children[next]);
    setFocus(order[next] ?? null);
    row?.focus({ preventScroll: true }); // so that Enter does not press the last clicked button
    row?.scrollIntoView({ block: "nearest" });
  };
  const withRow = (run) => () => rows[at] && run(rows[at]);
  useKeys([
    { keys: "j", does: "next row", run: () => step(1) },
    { keys: "k", does: "previous row", run: () => step(-1) },
    ...(onOpen || hrefOf ? [{ keys: "Enter", does: "open row", run: withRow(open) }] : []),
    ...(selection
      ? [{ keys: "x", does: "select row", run: withRow((row) => selection.toggle(idOf(row), order)) }]
      : []),
    ...(selection
      ? [
          {
            keys: "Shift+X",
            does: "select rows up to here",
            run: withRow((row) => selection.toggle(idOf(row), order, true)),
          },
        ]
      : []),
    ...rowKeys.map((one) => ({ ...one, run: withRow(one.run) })),
  ]);
  const isAllShown = selection && rows.length > 0 && order.every((id) => selection.isAll || selection.ids.has(id));
  const click = (event, row) => {
    if (event.target.closest("a, button, input, label, summary") || String(getSelection())) return;
    if (event.ctrlKey || event.metaKey) window.open(hrefOf?.(row) || "", "_blank");
    else open(row);
  };
  return html`
    <div class="table-box">
      <table class="table" aria-label=${label}>
        <thead>
          <tr>
            ${selection && html`
              <th class="pick">
                <input
                  type="checkbox"
                  aria-label="Select all rows"
                  checked=${isAllShown}
                  onChange=${() => (isAllShown ? selection.clear() : selection.set(order))}
                />
              </th>
            `}
            ${columns.map(
              (column) => html`
                <th
                  key=${column.id}
                  scope="col"
                  data-align=${column.align}
                  data-from=${column.from}
                  style=${column.width ? { width: column.width } : undefined}
                >
                  ${column.title}
                </th>
              `,
            )}
          </tr>
        </thead>
        <tbody ref=${body}>
          ${rows.map((row, index) => {
            const id = idOf(row);
            const isChosen = selection && (selection.isAll || selection.ids.has(id));
            return html`
              <tr
                key=${id}
                data-id=${id}
                tabindex="-1"
                class=${index === at ? "at" : ""}
                data-tone=${toneOf?.(row)}
                aria-selected=${selection ? isChosen : undefined}
                onClick=${hrefOf || onOpen ? (event) => click(event, row) : undefined}
                data-opens=${Boolean(hrefOf || onOpen)}
              >
                ${selection && html`
                  <td class="pick">
                    <input
                      type="checkbox"
                      aria-label="Select row"
                      checked=${isChosen}
                      onClick=${(event) => selection.toggle(id, order, event.shiftKey)}
                    />
                  </td>
                `}
                ${columns.map(
                  (column) => html`
                    <td key=${column.id} data-align=${column.align} data-from=${column.from} data-column=${column.id}>
                      ${column.cell(row)}
                    </td>
                  `,
                )}
              </tr>
            `;
          })}
        </tbody>
      </table>
      ${children}
    </div>
  `;
}

/**
 * The end of a list: loads more when scrolled into view; after a long search without matches, only on click.
 * @param {{list: {hasMore: boolean, more: () => void, items: any[], next: any}}} props
 */
export function More({ list }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!list.hasMore) return undefined;
    const seen = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && list.more(), {
      rootMargin: "400px",
    });
    seen.observe(box.current);
    return () => seen.disconnect();
  }, [list.hasMore, list.items.length]);
  return html`
    <div class="more" ref=${box}>
      ${list.hasMore && html`
        <button class="link" onClick=${list.more}>
          ${list.items.length ? "Older" : "No match so far; search older"}
        </button>
      `}
    </div>
  `;
}
