// Prepare the graph of a dag for drawing: steps, and collapsed groups that stand for all steps in them.

import { layout, smooth } from "./graph-layout.js";

/**
 * @typedef {{name: string, level: number, kind?: string, task?: string | null, mapped?: boolean, run_if?: string,
 *   may_fail?: boolean, when?: string[], group?: string}} GraphNode
 */
/** @typedef {{nodes: GraphNode[], edges: {from: string, to: string, kind: string}[], structure?: string}} GraphData */
/** @typedef {{id: string, label: string, group: string, node: GraphNode | null, steps: string[]}} Box */
/**
 * @typedef {{path: string, left: number, right: number, top: number, bottom: number, from: string, to: string, kind:
 *   string}} Wire
 */
/**
 * @typedef {{boxes: Map<string, Box>, places: Map<string, import("./graph-layout.js").Place>, groups:
 *   import("./graph-layout.js").GroupPlace[], wires: Wire[], next: Map<string, string[]>, before: Map<string,
 *   string[]>, width: number, height: number, order: string[]}} Drawing
 */

export const WIDTH = 196;
export const HEIGHT = 46;
const COUNTED_HEIGHT = 54;
/** With more steps than this, groups are collapsed at first. */
export const MANY = 200;

/**
 * Replace the step indexes in the edges of a received graph by names.
 * @param {{nodes: GraphNode[], edges: [number, number, string][], structure: string}} sent
 * @returns {GraphData}
 */
export function named(sent) {
  const edges = sent.edges.map(([from, to, kind]) => ({ from: sent.nodes[from].name, to: sent.nodes[to].name, kind }));
  return { nodes: sent.nodes, edges, structure: sent.structure };
}

/** All groups, including their parents. @param {GraphData} data */
export function groupsOf(data) {
  const found = new Set();
  for (const { group = "" } of data.nodes) {
    const parts = group ? group.split(".") : [];
    parts.forEach((_, at) => found.add(parts.slice(0, at + 1).join(".")));
  }
  return /** @type {string[]} */ ([...found]);
}

/** The id of the box of a collapsed group; no step has such a name. @param {string} group */
export const closedId = (group) => `\u0001group ${group}`;

/** The outermost collapsed group around a step, or "". */
function closedAround(group, closed) {
  const parts = group ? group.split(".") : [];
  for (let at = 1; at <= parts.length; at += 1) {
    const name = parts.slice(0, at).join(".");
    if (closed.has(name)) return name;
  }
  return "";
}

/** Within its group, the prefix of a step's name is omitted. @param {GraphNode} node */
const shortened = ({ name, group }) => (group && name.startsWith(`${group}.`) ? name.slice(group.length + 1) : name);

/** @param {GraphData} data @param {Set<string>} closed groups that are drawn as one box @returns {Drawing} */
export function draw(data, closed) {
  const boxes = new Map();
  const shown = new Map();
  for (const node of data.nodes) {
    const around = closedAround(node.group || "", closed);
    const id = around ? closedId(around) : node.name;
    shown.set(node.name, id);
    if (boxes.has(id)) boxes.get(id).steps.push(node.name);
    else if (around) {
      boxes.set(id, {
        id,
        label: around,
        group: around.includes(".") ? around.slice(0, around.lastIndexOf(".")) : "",
        node: null,
        steps: [node.name],
      });
    } else boxes.set(id, { id, label: shortened(node), group: node.group || "", node, steps: [node.name] });
  }
  const edges = lifted(data.edges, shown);
  const placed = layout(
    [...boxes.values()].map((box) => ({
      id: box.id,
      width: WIDTH,
      height: box.node && !box.node.mapped ? HEIGHT : COUNTED_HEIGHT,
      group: box.group,
    })),
    edges,
  );
  const order = [...boxes.keys()].sort(
    (a, b) => placed.places.get(a).x - placed.places.get(b).x || placed.places.get(a).y - placed.places.get(b).y,
  );
  return {
    boxes,
    places: placed.places,
    groups: placed.groups,
    wires: placed.lines.map((line, at) => wireOf(line, edges[at].kind)),
    width: placed.width,
    height: placed.height,
    order,
    ...neighbours(edges, placed.places),
  };
}

function lifted(edges, shown) {
  const found = new Map();
  for (const { from, to, kind } of edges) {
    const [a, b] = [shown.get(from), shown.get(to)];
    if (a !== b && a !== undefined && b !== undefined) {
      found.set(`${a}\n${b}`, { from: a, to: b, kind: found.get(`${a}\n${b}`)?.kind === "data" ? "data" : kind });
    }
  }
  return withoutCircles([...found.values()]);
}

/** Collapsed groups can depend on each other in a cycle; an edge that closes a cycle is omitted. */
function withoutCircles(edges) {
  const next = new Map();
  for (const edge of edges) next.has(edge.from) ? next.get(edge.from).push(edge) : next.set(edge.from, [edge]);
  const left = new Set();
  const seen = new Map(); // false: its successors are being visited; true: they have been
  for (const { from } of edges) {
    const stack = seen.has(from) ? [] : [[from, 0]];
    while (stack.length) {
      const [at, done] = stack.at(-1);
      seen.set(at, false);
      const edge = next.get(at)?.[done];
      stack.at(-1)[1] += 1;
      if (!edge) {
        seen.set(at, true);
        stack.pop();
      } else if (seen.get(edge.to) === false) left.add(edge);
      else if (!seen.has(edge.to)) stack.push([edge.to, 0]);
    }
  }
  return edges.filter((edge) => !left.has(edge));
}

function wireOf(line, kind) {
  const xs = line.points.map((point) => point[0]);
  const ys = line.points.map((point) => point[1]);
  return {
    path: smooth(line.points),
    left: Math.min(...xs),
    right: Math.max(...xs),
    top: Math.min(...ys),
    bottom: Math.max(...ys),
    from: line.from,
    to: line.to,
    kind,
  };
}

function neighbours(edges, places) {
  const next = new Map();
  const before = new Map();
  const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  for (const { from, to } of edges) {
    add(next, from, to);
    add(before, to, from);
  }
  for (const list of [...next.values(), ...before.values()]) list.sort((a, b) => places.get(a).y - places.get(b).y);
  return { next, before };
}

const kept = new Map();
const KEPT = 12;

/**
 * The same, cached by structure: states change often, structures do not.
 * @param {GraphData} data
 * @param {Set<string>} closed
 */
export function drawn(data, closed) {
  const structure = data.structure || JSON.stringify([data.nodes.map((one) => [one.name, one.group]), data.edges]);
  const key = `${structure} ${[...closed].sort().join(" ")}`;
  if (!kept.has(key)) {
    if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
    kept.set(key, draw(data, closed));
  }
  return /** @type {Drawing} */ (kept.get(key));
}
