// Order the nodes within each rank of a graph layout, and compute their vertical positions.

/** @typedef {import("./graph-layout.js").Net} Net */

const SWEEPS = 14;
const PATIENCE = 4;
const SETTLES = 5;
const GAP = 16;
const BEND_GAP = 9;
const GROUP_GAP = 26;

/** Order the nodes of each rank with few crossings: repeated barycentre passes in both directions. @param {Net} net */
export function order(net) {
  begin(net);
  let best = net.rows.map((row) => [...row]);
  let fewest = crossings(net);
  for (let sweep = 0, idle = 0; sweep < SWEEPS && idle < PATIENCE && fewest > 0; sweep += 1, idle += 1) {
    const isDown = sweep % 2 === 0;
    const ranks = net.rows.map((_, at) => at);
    for (const rank of isDown ? ranks : ranks.reverse()) sortBy(net, rank, isDown ? net.ups : net.downs);
    const found = crossings(net);
    if (found < fewest) [best, fewest, idle] = [net.rows.map((row) => [...row]), found, -1];
  }
  net.rows = best;
  net.rows.forEach(number(net));
}

const number = (net) => (row) => row.forEach((at, place) => (net.spots[at].order = place));

/** The initial order: depth first along the edges. */
function begin(net) {
  const rows = net.rows.map(() => []);
  const seen = new Set();
  const visit = (first) => {
    const stack = [first];
    while (stack.length) {
      const at = stack.pop();
      if (seen.has(at)) continue;
      seen.add(at);
      rows[net.spots[at].rank].push(at);
      for (const [to] of [...net.downs[at]].reverse()) stack.push(to);
    }
  };
  for (const row of net.rows) row.forEach(visit);
  net.rows = rows;
  net.rows.forEach(number(net));
}

function sortBy(net, rank, sides) {
  const row = net.rows[rank];
  const middle = new Map(row.map((at, place) => [at, sides[at].length ? mean(net, sides[at]) : place]));
  row.sort((a, b) => middle.get(a) - middle.get(b) || net.spots[a].order - net.spots[b].order);
  row.forEach((at, place) => (net.spots[at].order = place));
}

/** Edges to a port near the top of a group count as slightly higher than edges to its middle. */
function mean(net, side) {
  let sum = 0;
  for (const [to, , offset] of side) {
    sum += net.spots[to].order + (net.spots[to].height ? offset / net.spots[to].height / 2 : 0);
  }
  return sum / side.length;
}

function crossings(net) {
  let sum = 0;
  for (const row of net.rows.slice(0, -1)) sum += between(net, row);
  return sum;
}

/** Count the crossings between two ranks with a Fenwick tree. */
function between(net, row) {
  const ends = row.flatMap((at) => net.downs[at].map(([to]) => net.spots[to].order).sort((a, b) => a - b));
  let size = 1;
  while (size <= largest(ends)) size *= 2;
  const tree = new Int32Array(size * 2);
  let crossed = 0;
  for (const end of ends) {
    let at = end + size;
    tree[at] += 1;
    while (at > 1) {
      if (at % 2 === 0) crossed += tree[at + 1];
      at >>= 1;
      tree[at] += 1;
    }
  }
  return crossed;
}

const largest = (values) => values.reduce((most, one) => (one > most ? one : most), 0);

/** Set the vertical positions of nodes in their order, so that edges are as straight as possible. @param {Net} net */
export function settle(net) {
  for (const row of net.rows) stack(net, row);
  const ranks = net.rows.map((_, at) => at);
  const back = [...ranks].reverse();
  for (let round = 0; round < SETTLES; round += 1) {
    for (const rank of ranks) move(net, net.rows[rank], [net.ups]);
    for (const rank of back) move(net, net.rows[rank], [net.downs]);
  }
  for (const rank of ranks) move(net, net.rows[rank], [net.ups, net.downs]);
  for (const rank of back) move(net, net.rows[rank], [net.ups, net.downs]);
}

function gapOf(upper, lower) {
  if (upper.isBend || lower.isBend || upper.box?.item.port || lower.box?.item.port) {
    return upper.isBend === lower.isBend ? BEND_GAP : BEND_GAP + 3;
  }
  return upper.box?.inner || lower.box?.inner ? GROUP_GAP : GAP;
}

function stack(net, row) {
  let y = 0;
  row.forEach((at, place) => {
    if (place) y += net.spots[row[place - 1]].height + gapOf(net.spots[row[place - 1]], net.spots[at]);
    net.spots[at].y = y;
  });
}

function move(net, row, sides) {
  const wanted = [];
  const weights = [];
  const shifts = [];
  let shift = 0;
  row.forEach((at, place) => {
    const spot = net.spots[at];
    if (place) shift += net.spots[row[place - 1]].height + gapOf(net.spots[row[place - 1]], spot);
    let [sum, weight] = [0, 0];
    for (const side of sides) {
      for (const [to, own, its, strength] of side[at]) {
        sum += strength * (net.spots[to].y + its - own);
        weight += strength;
      }
    }
    wanted.push((weight ? sum / weight : spot.y) - shift);
    weights.push(weight || 0.1);
    shifts.push(shift);
  });
  isotonic(wanted, weights).forEach((y, place) => (net.spots[row[place]].y = y + shifts[place]));
}

/**
 * Isotonic regression: the non-decreasing values nearest to the wanted ones (weighted least squares, pool adjacent
 * violators).
 */
function isotonic(wanted, weights) {
  const pools = [];
  wanted.forEach((value, at) => {
    pools.push({ sum: value * weights[at], weight: weights[at], count: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).weight >= pools.at(-1).sum / pools.at(-1).weight) {
      const last = pools.pop();
      const pool = pools.at(-1);
      pool.sum += last.sum;
      pool.weight += last.weight;
      pool.count += last.count;
    }
  });
  return pools.flatMap((pool) => new Array(pool.count).fill(pool.sum / pool.weight));
}
