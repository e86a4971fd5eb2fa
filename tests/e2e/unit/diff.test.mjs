import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, diff, diffLines, pointer, put, same, without } from '../../../console/diff.js';
import { changeOf } from '../../../console/views/system.js';

test('equal as JSON', () => {
  assert.ok(same({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }));
  for (const [a, b] of [[1, '1'], [null, {}], [[], {}], [{ a: undefined }, {}], [[1], [1, 2]], [0, false]]) assert.ok(!same(a, b));
});

test('places that differ', () => {
  assert.deepEqual(diff({ a: 1, b: { c: 2 }, d: 3 }, { a: 1, b: { c: 4 }, e: 5 }), [
    { path: ['b', 'c'], was: 2, now: 4 }, { path: ['d'], was: 3 }, { path: ['e'], now: 5 }]);
  assert.deepEqual(diff([1, 2], [1, 3]), [{ path: [1], was: 2, now: 3 }]);
  assert.deepEqual(diff([1], [1, 2]), [{ path: [], was: [1], now: [1, 2] }]);
  assert.deepEqual(diff({ a: null }, {}), [{ path: ['a'], was: null }]);
});

test('the same as lines', () => {
  assert.deepEqual(diffLines({ amountEur: 214.5, to: 'x' }, { amountEur: 199, to: 'x' }), [
    { sign: '-', text: '"amountEur": 214.5' }, { sign: '+', text: '"amountEur": 199' }]);
});

test('places in values', () => {
  const value = { a: [{ b: 1 }], c: 2 };
  assert.equal(at(value, ['a', 0, 'b']), 1);
  assert.equal(at(value, ['a', 'length', 'x']), undefined);
  assert.equal(at({}, ['constructor']), undefined);
  const changed = put(value, ['a', 0, 'b'], 5);
  assert.deepEqual(changed, { a: [{ b: 5 }], c: 2 });
  assert.deepEqual(value.a, [{ b: 1 }]);
  assert.deepEqual(without(changed, ['a', 0, 'b']), { a: [{}], c: 2 });
  assert.equal(pointer(['a/b', '~', 0]), '/a~1b/~0/0');
});

test('a tool that describes itself otherwise is shown by what it said and says', () => {
  const approved = { description: 'Adds.', inputSchema: { type: 'object', properties: { a: { type: 'number' } } }, annotations: { readOnly: true } };
  const now = { description: 'Adds, and sends.', inputSchema: { type: 'object', properties: { a: { type: 'string' } } }, annotations: {} };
  const lines = (tool) => {
    const { was, is } = changeOf(tool);
    return diffLines(was, is).map(({ sign, text }) => `${sign} ${text}`);
  };
  assert.deepEqual(lines({ approved, now }), [
    '- "description": "Adds."', '+ "description": "Adds, and sends."', '- "inputSchema.properties.a.type": "number"',
    '+ "inputSchema.properties.a.type": "string"', '- "annotations.readOnly": true']);
  assert.deepEqual(lines({ now: { description: 'New.', annotations: {} } }), ['+ "description": "New."', '+ "annotations": {}']);
  const cut = changeOf({ approved: { ...approved, leftOut: ['description'] }, now: { ...now, leftOut: ['description', 'inputSchema'] } });
  assert.deepEqual(cut.left, ['description', 'inputSchema']);
  assert.equal('leftOut' in cut.was || 'leftOut' in cut.is, false);
});
