// Positions of a plan's items in the graph, and its critical path. Pure.

import { OVER } from '../fold/core.js';
import { spansOf } from '../fold/view.js';

/** Above so many items crossings are not counted, and layers are centred, not pulled to their neighbours. */
const LARGE = 120;
const SWEEPS = 6;
const PASSES = 8;

/**
 * `items` are `{id, dependencies}` in plan order. Returns `{nodes, edges, width, height, layers}`: `nodes` by id with `x, y,
 * layer`; an edge is the nodes from the dependency to the dependent, with a point in each layer between.
 */
export function layout(items, { width, height, gapX, gapY }) {
  const { layers, nodes, edges } = layered(items);
  const isLarge = items.length > LARGE;
  const ordered = order(layers, isLarge);
  for (const layer of ordered) layer.forEach((node, i) => Object.assign(node, { place: i, y: i * (height + gapY) }));
  if (isLarge) centre(ordered, height + gapY);
  else pull(ordered, height, gapY);
  const all = ordered.flat();
  const top = all.reduce((least, node) => Math.min(least, node.y), Infinity);
  let bottom = 0;
  for (const node of all) {
    node.x = node.layer * (width + gapX);
    node.y = Math.round(node.y - top);
    bottom = Math.max(bottom, node.y + height);
  }
  const most = ordered.reduce((n, layer) => Math.max(n, layer.filter((node) => node.real).length), 0);
  return { nodes, edges, width: Math.max(0, ordered.length * (width + gapX) - gapX), height: bottom, layers: ordered.length, most };
}

/** Layer = longest path from an item without dependencies. */
function layered(items) {
  const rank = new Map(items.map((item, i) => [item.id, i]));
  const needs = needsOf(items);
  const depths = new Map();
  for (const item of dependenciesFirst(items)) depths.set(item.id, needs(item).reduce((most, id) => Math.max(most, (depths.get(id) ?? -1) + 1), 0));
  const layers = [];
  const nodes = new Map();
  const put = (node) => {
    (layers[node.layer] ??= []).push(node);
    nodes.set(node.id, node);
    return node;
  };
  for (const item of items) put({ id: item.id, layer: depths.get(item.id), rank: rank.get(item.id), real: true, up: [], down: [] });
  const edges = [];
  for (const item of items) {
    for (const need of needs(item)) {
      const chain = [nodes.get(need)];
      const to = nodes.get(item.id);
      for (let layer = depths.get(need) + 1; layer < to.layer; layer++) {
        const point = put({ id: `${need}>${item.id}@${layer}`, layer, rank: to.rank, real: false, up: [], down: [] });
        link(chain.at(-1), point);
        chain.push(point);
      }
      link(chain.at(-1), to);
      chain.push(to);
      edges.push(chain);
    }
  }
  return { layers, nodes, edges };
}

function link(from, to) {
  from.down.push(to);
  to.up.push(from);
}

function needsOf(items) {
  const ids = new Set(items.map((item) => item.id));
  return (item) => (item.dependencies ?? []).filter((id) => ids.has(id) && id !== item.id);
}

/** Iterative: a plan may be a long chain. A cycle, which no plan may have, stops at its start. */
function dependenciesFirst(items) {
  const byId = new Map(items.map((item) => [item.id, item]));
  const needs = needsOf(items);
  const begun = new Set();
  const sorted = new Set();
  for (const first of items) {
    const stack = [first];
    while (stack.length) {
      const item = stack.at(-1);
      begun.add(item.id);
      const next = needs(item).find((id) => !begun.has(id));
      if (next === undefined) sorted.add(stack.pop());
      else stack.push(byId.get(next));
    }
  }
  return sorted;
}

/** Alternating sweeps; the order with the fewest crossings wins, the first on a tie. */
function order(layers, isLarge) {
  for (const layer of layers) layer.sort((a, b) => a.rank - b.rank).forEach(placeIt);
  let best = layers.map((layer) => [...layer]);
  let fewest = isLarge ? 0 : crossings(layers);
  for (let sweep = 0; sweep < SWEEPS && (isLarge || fewest > 0); sweep++) {
    const isBack = sweep % 2 === 1;
    for (const layer of isBack ? layers.slice(0, -1).reverse() : layers.slice(1)) {
      for (const node of layer) node.centre = barycentre(isBack ? node.down : node.up, node.place);
      layer.sort((a, b) => a.centre - b.centre || a.rank - b.rank).forEach(placeIt);
    }
    // Without counted crossings the last sweep wins.
    const now = isLarge ? -1 - sweep : crossings(layers);
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => [...layer]);
    }
  }
  return best;
}

function placeIt(node, i) {
  node.place = i;
}

function barycentre(neighbours, fallback) {
  if (neighbours.length === 0) return fallback;
  return neighbours.reduce((sum, node) => sum + node.place, 0) / neighbours.length;
}

export function crossings(layers) {
  let count = 0;
  for (const layer of layers.slice(1)) {
    const ends = layer.flatMap((node) => node.up.map((up) => [up.place, node.place]));
    for (let i = 0; i < ends.length; i++) {
      for (let j = i + 1; j < ends.length; j++) {
        if ((ends[i][0] - ends[j][0]) * (ends[i][1] - ends[j][1]) < 0) count += 1;
      }
    }
  }
  return count;
}

function centre(layers, step) {
  const most = layers.reduce((n, layer) => Math.max(n, layer.length), 0);
  for (const layer of layers) for (const node of layer) node.y += ((most - layer.length) * step) / 2;
}

/** Passes towards the median of the neighbours, keeping order and gaps, each then shifted by its mean error. */
function pull(layers, height, gapY) {
  for (let pass = 0; pass < PASSES; pass++) {
    const isBack = pass % 2 === 1;
    for (const layer of isBack ? [...layers].reverse() : layers) {
      for (const node of layer) node.want = median(neighbours(node, isBack, pass >= PASSES - 2).map((one) => one.y), node.y);
      let lowest = -Infinity;
      for (const node of layer) {
        node.y = Math.max(node.want, lowest);
        lowest = node.y + ((node.real ? height : 6) + height) / 2 + gapY;
      }
      const error = layer.reduce((sum, node) => sum + node.y - node.want, 0) / layer.length;
      for (const node of layer) node.y -= error;
    }
  }
}

function neighbours(node, isBack, both) {
  const first = isBack ? node.down : node.up;
  return both ? [...first, ...(isBack ? node.up : node.down)] : first;
}

function median(values, fallback) {
  if (values.length === 0) return fallback;
  const sorted = values.sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/*
 * The chain of items that decides when the run ends: measured times of finished items, the times so far of running
 * ones, the median of the measured ones for others.
 */

/** What positions depend on: ids, order and dependencies. */
export const shapeOf = (items) => items.map((item) => `${item.id}<${(item.dependencies ?? []).join(' ')}`).join('|');

/** `weigh(item)` is `{ms, over}`, or null if not begun. Returns the ids from first to last. */
export function chain(items, weigh) {
  const weights = new Map(items.map((item) => [item.id, weigh(item)]));
  const measured = [...weights.values()].filter((weight) => weight?.over).map((weight) => weight.ms).sort((a, b) => a - b);
  const usual = measured.length ? measured[measured.length >> 1] : 1;
  const best = new Map();
  const needs = needsOf(items);
  // On a tie the first one.
  const longestOf = (ids) => ids.reduce((longest, id) => (best.get(id)?.ms > (longest?.ms ?? -1) ? best.get(id) : longest), null);
  for (const item of dependenciesFirst(items)) {
    const from = longestOf(needs(item));
    best.set(item.id, { id: item.id, ms: (from?.ms ?? 0) + (weights.get(item.id)?.ms ?? usual), from });
  }
  const ids = [];
  for (let one = longestOf([...weights.keys()]); one; one = one.from) ids.unshift(one.id);
  return ids;
}

/** An item's duration so far, from the spans of a view, as of `now`. */
export function weightOf(view, now) {
  return (item) => {
    const span = spansOf(view, item.id).at(-1);
    if (!span || item.status === 'pending') return null;
    return { ms: (span.end ?? now) - span.start, over: OVER.has(item.status), span };
  };
}

/** How a weight is shown: of an item that is worked on since when, in steps to avoid repaints; else how long it took. */
export function timeOf({ now, replay }, weight) {
  const isOpen = weight && !weight.over && !replay;
  return isOpen ? { ms: null, since: weight.span.start, now: Math.floor(now / 250) * 250 } : { ms: weight?.ms ?? null, since: null, now: 0 };
}
