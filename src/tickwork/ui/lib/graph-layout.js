// Compute the layout of a graph from left to right: positions of steps, and the paths of edges between them.
//
// Pure: equal graphs give equal drawings. Ranks by longest path; a line that passes ranks is a chain of bends, which
// all lines of one source share; orders by barycentres, keeping the one with the fewest crossings; heights by isotonic
// regression. A group is laid out by itself, then stands as one box among the others; lines leave and enter it by
// ports.

import { order, settle } from "./graph-layout-order.js";

/** @typedef {{id: string, width: number, height: number, group?: string}} Node */
/** @typedef {{from: string, to: string}} Edge */
/** @typedef {{x: number, y: number, width: number, height: number}} Place */
/** @typedef {Place & {id: string, depth: number}} GroupPlace */
/** @typedef {{from: string, to: string, points: number[][]}} Line */
/**
 * @typedef {{places: Map<string, Place>, groups: GroupPlace[], lines: Line[], width: number, height: number}} Layout
 */

// No name contains this character, so generated ids never clash with steps.
const [IN, OUT, GROUP] = ["\u0001in ", "\u0001out ", "\u0001group "];
const COLUMN_GAP = 52;
const PORT_GAP = 18;
const TITLE = 30;
const PAD = 14;

/** @param {Node[]} nodes @param {Edge[]} edges @returns {Layout} */
export function layout(nodes, edges) {
  const homes = new Map(nodes.map((node) => [node.id, node.group || ""]));
  const wires = edges.filter((edge) => homes.has(edge.from) && homes.has(edge.to) && edge.from !== edge.to);
  if (!nodes.length) return { places: new Map(), groups: [], lines: [], width: 0, height: 0 };
  const drawn = arrange(makeTree(nodes), wires);
  /** @type {Layout} */
  const out = { places: new Map(), groups: [], lines: [], width: drawn.width, height: drawn.height };
  const parts = { exits: new Map(), entries: new Map(), between: new Map() };
  put(drawn, "", 0, 0, 0, out, parts);
  out.lines = wires.map(({ from, to }) => ({ from, to, points: whole(parts, homes, from, to) }));
  return out;
}

// --- the tree of groups ---

/** @typedef {{id: string, width: number, height: number, children?: Item[], port?: "in" | "out"}} Item */

function makeTree(nodes) {
  const root = { id: "", children: [] };
  const groups = new Map([["", root]]);
  const groupOf = (name) => {
    if (groups.has(name)) return groups.get(name);
    const dot = name.lastIndexOf(".");
    const made = { id: `${GROUP}${name}`, width: 0, height: 0, children: [] };
    groupOf(dot < 0 ? "" : name.slice(0, dot)).children.push(made);
    groups.set(name, made);
    return made;
  };
  for (const node of nodes) {
    groupOf(node.group || "").children.push({ id: node.id, width: node.width, height: node.height });
  }
  return root;
}

const leaves = (item) => (item.children ? item.children.flatMap(leaves) : [item.id]);

/** Return the items of a cluster without cycles between them: groups on a cycle are dissolved. */
function itemsOf(cluster, wires) {
  let items = cluster.children;
  for (;;) {
    const owner = new Map(items.flatMap((item, at) => leaves(item).map((id) => [id, at])));
    const links = wires.map((wire) => [owner.get(wire.from), owner.get(wire.to)]).filter(([a, b]) => a !== b);
    const circling = new Set(inCircles(items.length, links));
    if (![...circling].some((at) => items[at].children)) return { items, owner };
    items = items.flatMap((item, at) => (circling.has(at) && item.children ? item.children : [item]));
  }
}

function inCircles(size, links) {
  const waits = new Array(size).fill(0);
  const next = Array.from({ length: size }, () => []);
  for (const [a, b] of links) {
    next[a].push(b);
    waits[b] += 1;
  }
  const free = waits.flatMap((count, at) => (count ? [] : [at]));
  for (const at of free) for (const to of next[at]) if (!(waits[to] -= 1)) free.push(to);
  return waits.flatMap((count, at) => (count ? [at] : []));
}

// --- one cluster ---

/** Lay out a cluster. Its edges connect steps or ports. */
function arrange(cluster, wires) {
  const { items, owner } = itemsOf(cluster, wires);
  const inner = items.map((item, at) => (item.children ? arrangeGroup(item, at, owner, wires) : null));
  const boxes = items.map((item, at) => ({
    item,
    inner: inner[at],
    width: inner[at]?.width ?? item.width,
    height: inner[at]?.height ?? item.height,
  }));
  const outer = wires.filter((wire) => owner.get(wire.from) !== owner.get(wire.to));
  const links = outer.map((wire) => ({ wire, a: owner.get(wire.from), b: owner.get(wire.to) }));
  const ranks = rank(items, links);
  const net = chains(boxes, ranks, links);
  order(net);
  settle(net);
  return finish(boxes, net, links, cluster.id !== "");
}

function arrangeGroup(item, at, owner, wires) {
  const own = wires.filter((wire) => owner.get(wire.from) === at && owner.get(wire.to) === at);
  const exits = [
    ...new Set(
      wires.filter((wire) => owner.get(wire.from) === at && owner.get(wire.to) !== at).map((wire) => wire.from),
    ),
  ];
  const entries = [
    ...new Set(wires.filter((wire) => owner.get(wire.from) !== at && owner.get(wire.to) === at).map((wire) => wire.to)),
  ];
  const port = (id, way) => ({ id, width: 0, height: 0, port: way });
  const children = [
    ...entries.map((id) => port(`${IN}${id}`, "in")),
    ...item.children,
    ...exits.map((id) => port(`${OUT}${id}`, "out")),
  ];
  const more = [
    ...entries.map((id) => ({ from: `${IN}${id}`, to: id })),
    ...exits.map((id) => ({ from: id, to: `${OUT}${id}` })),
  ];
  const drawn = arrange({ id: item.id, children }, [...own, ...more]);
  return { ...drawn, height: drawn.height + TITLE + PAD };
}

/** Assign ranks by longest path; then nodes with more outgoing than incoming edges move right. */
function rank(items, links) {
  const ranks = new Array(items.length).fill(0);
  const into = Array.from(items, () => new Set());
  const out = Array.from(items, () => new Set());
  for (const { a, b } of links) {
    out[a].add(b);
    into[b].add(a);
  }
  const waits = into.map((set) => set.size);
  const sorted = waits.flatMap((count, at) => (count ? [] : [at]));
  for (const at of sorted) {
    for (const to of out[at]) {
      ranks[to] = Math.max(ranks[to], ranks[at] + 1);
      if (!(waits[to] -= 1)) sorted.push(to);
    }
  }
  for (const at of [...sorted].reverse()) {
    if (out[at].size > into[at].size && items[at].port !== "in") {
      ranks[at] = Math.max(ranks[at], Math.min(...[...out[at]].map((to) => ranks[to])) - 1);
    }
  }
  return withPorts(items, ranks);
}

/** Ports get ranks of their own at the edges of their group. */
function withPorts(items, ranks) {
  const plain = items.flatMap((item, at) => (item.port ? [] : [ranks[at]]));
  const first = items.some((item) => item.port === "in") ? Math.min(...plain) - 1 : Math.min(...plain);
  const last = Math.max(...plain) + 1;
  return ranks.map((value, at) => (items[at].port === "in" ? 0 : (items[at].port === "out" ? last : value) - first));
}

/**
 * @typedef {{rank: number, order: number, width: number, height: number, y: number, box: any, isBend: boolean, key:
 *   string}} Spot
 */
/**
 * @typedef {{spots: Spot[], rows: number[][], ups: number[][][], downs: number[][][]}} Net `rows` are spots by rank, in
 *   their order; `downs` of a spot are [spot, own offset, its offset, weight] to the next rank.
 */

/** Build the network of boxes and bends, whose edges span one rank each. Edges of one source share bends. */
function chains(boxes, ranks, links) {
  /** @type {Spot[]} */
  const spots = boxes.map((box, at) => ({
    rank: ranks[at],
    order: 0,
    width: box.width,
    height: box.height,
    y: 0,
    box,
    isBend: false,
    key: box.item.id,
  }));
  const bends = new Map();
  const pairs = new Map();
  const join = (a, aOff, b, bOff) => pairs.set(`${a} ${b} ${aOff} ${bOff}`, [a, aOff, b, bOff]);
  for (const link of links) {
    let [at, off] = [link.a, offsetOf(boxes[link.a], "out", link.wire.from)];
    for (let step = ranks[link.a] + 1; step < ranks[link.b]; step += 1) {
      const key = `${link.wire.from} ${step}`;
      if (!bends.has(key)) {
        bends.set(key, spots.length);
        spots.push({ rank: step, order: 0, width: 0, height: 0, y: 0, box: null, isBend: true, key });
      }
      join(at, off, bends.get(key), 0);
      [at, off] = [bends.get(key), 0];
    }
    join(at, off, link.b, offsetOf(boxes[link.b], "in", link.wire.to));
  }
  return { ...netOf(spots, [...pairs.values()]), bends };
}

function netOf(spots, pairs) {
  const ups = Array.from(spots, () => []);
  const downs = Array.from(spots, () => []);
  for (const [a, aOff, b, bOff] of pairs) {
    const weight = spots[a].isBend && spots[b].isBend ? 8 : spots[a].isBend || spots[b].isBend ? 2 : 1;
    downs[a].push([b, aOff, bOff, weight]);
    ups[b].push([a, bOff, aOff, weight]);
  }
  const rows = Array.from({ length: Math.max(0, ...spots.map((spot) => spot.rank)) + 1 }, () => []);
  spots.forEach((spot, at) => rows[spot.rank].push(at));
  return { spots, ups, downs, rows };
}

/** Vertical offset at which an edge meets a box: its middle, or a port of a group. */
function offsetOf(box, way, id) {
  if (!box.inner) return box.height / 2;
  return box.inner.ports.get(`${way === "in" ? IN : OUT}${id}`) + TITLE;
}

/** Place columns and boxes, and compute the points of each edge inside this cluster. */
function finish(boxes, net, links, isGroup) {
  const isPortRow = net.rows.map(
    (row) =>
      row.every((at) => net.spots[at].box?.item.port || net.spots[at].isBend) &&
      row.some((at) => net.spots[at].box?.item.port),
  );
  const widths = net.rows.map((row) => Math.max(0, ...row.map((at) => net.spots[at].width)));
  const columns = [];
  let x = isGroup && !isPortRow[0] ? PAD : 0;
  widths.forEach((width, at) => {
    columns.push(x);
    x += width + (isPortRow[at] || isPortRow[at + 1] ? PORT_GAP : COLUMN_GAP);
  });
  const end = columns.at(-1) + widths.at(-1);
  const top = Math.min(...net.spots.map((spot) => spot.y));
  for (const spot of net.spots) spot.y -= top;
  const places = boxes.map((box, at) => ({ box, x: columns[net.spots[at].rank], y: net.spots[at].y }));
  const ways = links.map((link) => ({ wire: link.wire, points: way(boxes, net, link, columns, widths) }));
  const ports = new Map(boxes.flatMap((box, at) => (box.item.port ? [[box.item.id, net.spots[at].y]] : [])));
  return {
    places,
    ways,
    ports,
    width: end + (isGroup && !isPortRow.at(-1) ? PAD : 0),
    height: Math.max(...net.spots.map((spot) => spot.y + spot.height)),
  };
}

function way(boxes, net, { wire, a, b }, columns, widths) {
  const [from, to] = [net.spots[a], net.spots[b]];
  const startY = from.y + offsetOf(boxes[a], "out", wire.from);
  const points = [[columns[from.rank] + from.width, startY]];
  if (from.width < widths[from.rank]) points.push([columns[from.rank] + widths[from.rank], startY]);
  for (let step = from.rank + 1; step < to.rank; step += 1) {
    const y = net.spots[net.bends.get(`${wire.from} ${step}`)].y;
    points.push([columns[step], y]);
    if (widths[step]) points.push([columns[step] + widths[step], y]);
  }
  points.push([columns[to.rank], to.y + offsetOf(boxes[b], "in", wire.to)]);
  return points;
}

// --- all clusters together ---

/** Store absolute positions, and the segments of edges: out of groups, between, into groups. */
function put(drawn, group, x, y, depth, out, parts) {
  for (const { box, x: left, y: top } of drawn.places) {
    const at = { x: x + left, y: y + top, width: box.width, height: box.height };
    if (box.inner) {
      const id = box.item.id.slice(GROUP.length);
      out.groups.push({ ...at, id, depth });
      put(box.inner, id, at.x, at.y + TITLE, depth + 1, out, parts);
    } else if (!box.item.port) out.places.set(box.item.id, at);
  }
  for (const { wire, points } of drawn.ways) {
    const part = { group, points: points.map(([px, py]) => [px + x, py + y]) };
    if (wire.to.startsWith(OUT)) add(parts.exits, wire.from, part);
    else if (wire.from.startsWith(IN)) add(parts.entries, wire.to, part);
    else parts.between.set(`${wire.from}\n${wire.to}`, part);
  }
}

function add(map, key, value) {
  if (map.has(key)) map.get(key).push(value);
  else map.set(key, [value]);
}

const isIn = (home, group) => home === group || home.startsWith(`${group}.`);

/** Join the segments of an edge: out of groups from the innermost, between, then into groups. */
function whole(parts, homes, from, to) {
  const out = (parts.exits.get(from) || []).filter((part) => !isIn(homes.get(to), part.group));
  const into = (parts.entries.get(to) || []).filter((part) => !isIn(homes.get(from), part.group)).reverse();
  return [...out, parts.between.get(`${from}\n${to}`), ...into].flatMap((part) => part.points);
}

/** Return the points of an edge as a smooth SVG path. @param {number[][]} points */
export function smooth(points) {
  let path = `M${round(points[0][0])} ${round(points[0][1])}`;
  for (let at = 1; at < points.length; at += 1) {
    const [[x0, y0], [x1, y1]] = [points[at - 1], points[at]];
    if (Math.abs(y1 - y0) < 0.5) path += `H${round(x1)}`;
    else {
      const middle = (x0 + x1) / 2;
      path += `C${round(middle)} ${round(y0)} ${round(middle)} ${round(y1)} ${round(x1)} ${round(y1)}`;
    }
  }
  return path;
}

const round = (value) => Math.round(value * 10) / 10;
