// The plan's graph, lanes, critical path and time axis.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wrapWith } from '../../../console/browser.js';
import { chain } from '../../../console/plan/layout.js';
import { lanes } from '../../../console/plan/lanes.js';
import { crossings, layout } from '../../../console/plan/layout.js';
import { scale } from '../../../console/views/timeline/rows.js';

const SIZE = { width: 84, height: 20, gapX: 26, gapY: 6 };
const DIAMOND = [['bill'], ['tip', 'bill'], ['date', 'bill'], ['share', 'tip', 'date']].map(([id, ...dependencies]) => ({ id, dependencies }));

/** A plan of `count` items about `wide` next to each other; the same each time. */
function plan(count, wide) {
  let seed = count * 13;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  return Array.from({ length: count }, (_, i) => {
    const from = Math.max(0, i - wide * 2);
    const needs = i < wide ? [] : [from, from + Math.floor(random() * Math.max(1, i - from - wide / 2))];
    return { id: `i${i}`, dependencies: [...new Set(needs)].filter((need) => need < i).map((need) => `i${need}`) };
  });
}

const positions = (graph) => [...graph.nodes.values()].filter(({ real }) => real).map(({ id, x, y }) => `${id} ${x} ${y}`).join('\n');

test('the same plan gives the same picture, whatever the status', () => {
  for (const count of [4, 24, 80, 300]) {
    const items = plan(count, 5);
    const later = items.map((item, i) => ({ ...item, status: i % 2 ? 'completed' : 'pending' }));
    assert.equal(positions(layout(items, SIZE)), positions(layout(later, SIZE)));
  }
});

test('an item stands to the right of all it needs, and no two stand on each other', () => {
  for (const [count, wide] of [[3, 2], [24, 4], [80, 7], [300, 16], [300, 2]]) {
    const graph = layout(plan(count, wide), SIZE);
    for (const edge of graph.edges) for (let i = 1; i < edge.length; i++) assert.equal(edge[i].layer, edge[i - 1].layer + 1);
    const real = [...graph.nodes.values()].filter((node) => node.real);
    assert.equal(real.length, count);
    for (const a of real) for (const b of real) if (a !== b && a.layer === b.layer) assert.ok(Math.abs(a.y - b.y) >= SIZE.height, `${a.id} ${b.id}`);
  }
});

test('a plan whose edges can be drawn without a crossing is', () => {
  const items = [['a'], ['b'], ['c'], ['x', 'c'], ['y', 'b'], ['z', 'a']].map(([id, ...dependencies]) => ({ id, dependencies }));
  const graph = layout(items, SIZE);
  const layers = [0, 1].map((layer) => [...graph.nodes.values()].filter((node) => node.layer === layer));
  assert.equal(crossings(layers), 0);
});

test('three hundred items are laid out in 50 ms', () => {
  for (const wide of [2, 16, 60]) {
    const items = plan(300, wide);
    layout(items, SIZE);
    const times = Array.from({ length: 5 }, () => {
      const begin = performance.now();
      layout(items, SIZE);
      return performance.now() - begin;
    });
    assert.ok(Math.min(...times) < 50, `${wide} wide: ${Math.min(...times)} ms`);
  }
});

test('a circle and a name that is not there are drawn all the same', () => {
  const items = [{ id: 'a', dependencies: ['b'] }, { id: 'b', dependencies: ['a', 'nowhere'] }, { id: 'c', dependencies: ['c'] }];
  assert.equal([...layout(items, SIZE).nodes.values()].filter(({ real }) => real).length, 3);
  assert.equal(lanes(items).rows.length, 3);
  assert.ok(chain(items, () => null).length > 0);
});

test('a chain of five thousand items is no recursion', () => {
  const items = Array.from({ length: 5000 }, (_, i) => ({ id: `i${i}`, dependencies: i ? [`i${i - 1}`] : [] }));
  assert.equal(layout(items, SIZE).layers, 5000);
  assert.equal(chain(items, () => null).length, 5000);
});

test('a lane stays open until its last dependent, and is taken by it', () => {
  const { rows, width } = lanes(DIAMOND);
  assert.deepEqual(rows, [
    { lane: 0, from: [], through: [], down: true },
    { lane: 1, from: [0], through: [0], down: true },
    { lane: 0, from: [0], through: [1], down: true },
    { lane: 0, from: [1, 0], through: [], down: false },
  ]);
  assert.equal(width, 2);
});

test('no lane is used by two at once', () => {
  const { rows } = lanes(plan(120, 9));
  for (const { lane, through } of rows) assert.ok(!through.includes(lane));
});

test('the chain is the longest by time: measured, so far, or usual', () => {
  const took = { bill: { ms: 10, over: true }, tip: { ms: 5, over: true }, date: { ms: 50, over: false } };
  assert.deepEqual(chain(DIAMOND, ({ id }) => took[id] ?? null), ['bill', 'date', 'share']);
  assert.deepEqual(chain(DIAMOND, () => null), ['bill', 'tip', 'share'], 'on a tie the first in plan order');
});

test('a wait much longer than the work is drawn as a break', () => {
  const hour = 3_600_000;
  const axis = scale(0, 14 * hour, [{ from: 0, to: 5000 }, { from: 14 * hour - 5000, to: 14 * hour }]);
  assert.equal(axis.breaks.length, 1);
  assert.ok(axis.at(5000) > 0.3);
  assert.ok(axis.at(14 * hour) <= 1);
  let before = -1;
  for (let time = 0; time <= 14 * hour; time += hour / 4) {
    assert.ok(axis.at(time) >= before);
    before = axis.at(time);
  }
  assert.equal(scale(0, 10_000, [{ from: 0, to: 4000 }]).breaks.length, 0);
});

test('labels break between words, long words anywhere, and what is left out is marked', () => {
  const measure = (text) => text.length;
  assert.deepEqual(wrapWith(measure, 'one two three', 7, 3), ['one two', 'three']);
  assert.deepEqual(wrapWith(measure, 'one two three four', 7, 2), ['one two', 'three…']);
  assert.deepEqual(wrapWith(measure, 'abcdefghij', 4, 3), ['abcd', 'efgh', 'ij']);
  assert.deepEqual(wrapWith(measure, 'a abcdefghij b', 4, 3), ['a', 'abcd', 'efg…']);
  assert.deepEqual(wrapWith(measure, ' \n', 4, 3), ['']);
  assert.deepEqual(wrapWith(() => 9, '😀 b', 4, 2), ['😀', 'b']);
});

test('a long label is measured seldom, in words and in one', () => {
  for (const text of ['x'.repeat(100_000), 'one two '.repeat(12_500), `${'x '.repeat(50)}${'y'.repeat(100_000)}`]) {
    let calls = 0;
    const lines = wrapWith((part) => { calls += 1; return part.length; }, text, 24, 3);
    assert.equal(lines.length, 3);
    assert.ok(lines[2].endsWith('…') && lines.every((line) => line.length <= 24), `${lines}`);
    assert.ok(calls < 200, `${calls} calls`);
  }
});
