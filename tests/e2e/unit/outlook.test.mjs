import assert from 'node:assert/strict';
import { test } from 'node:test';
import { happenings, matched, partedAt } from '../../../console/branches.js';
import { costRange, costText, decides, sentence, strictest } from '../../../console/outlook.js';

const rule = (action, more = {}) => ({ action, rule: 'r', scope: 'tenant', ...more });
const forecast = {
  items: [
    { id: 'done', description: 'Done', status: 'completed', mayCall: [] },
    { id: 'pay', description: 'Pay', status: 'pending', mayCall: [{ toolName: 'refund', action: 'auto', class: 'irreversible', conditional: true }] },
    { id: 'mail', description: 'Mail', status: 'pending', mayCall: [{ toolName: 'mail', action: 'ask', class: 'irreversible' }] },
    { id: 'think', description: 'Think', status: 'pending' },
  ],
  tools: [
    { toolName: 'refund', class: 'irreversible', policy: rule('auto'), conditions: [
      { policy: rule('ask', { approvers: ['treasurer'] }), when: [{ pointer: '/amountEur', op: 'ge', value: 200 }] }] },
    { toolName: 'mail', class: 'irreversible', policy: rule('ask') },
  ],
};

test('a forecast in one sentence; conditions are never guessed', () => {
  assert.equal(sentence(forecast, '$0.12 – $0.21'),
    '1 item will ask a person, 1 item may ask a person, 2 items can do what cannot be undone, $0.12 – $0.21. Nothing is denied.');
  assert.equal(sentence({ items: forecast.items.slice(0, 1), tools: [] }), 'Nothing is left to be done.');
  assert.equal(sentence({ items: forecast.items.slice(3), tools: [] }), '1 item, of which none asks a person. Nothing is denied.');
  assert.equal(decides(forecast.tools[0]), 'asks treasurer if /amountEur ≥ 200; else runs');
  assert.equal(decides(forecast.tools[1]), 'asks a person');
  assert.equal(strictest(forecast.tools[0]), 'ask');
});

test('costs come from what items cost, and an unknown price is none', () => {
  const rows = Array.from({ length: 10 }, (_, i) => ({ itemId: `i${i}`, calls: 1, unpricedCalls: 0, costUsd: (i + 1) / 100 }));
  assert.equal(costText(costRange(rows, 2)), '$0.040 – $0.200');
  assert.equal(costText(costRange(rows.map((row) => ({ ...row, unpricedCalls: 1 })), 2)), 'no price');
  assert.equal(costRange([], 2), null);
  assert.equal(costRange([{ costUsd: 1, calls: 1, unpricedCalls: 0 }], 2), null, 'planning is no item');
});

function thread(id, items, more = {}) {
  const view = {
    seq: 9, costs: new Map(), messages: [], revisions: [], questions: new Map(), restarts: [], itemSpans: new Map(), spans: new Map(), runs: new Map(), runOrder: [],
    forkedFrom: null, ...more };
  return { id, core: { todoList: items, stepOutputs: {} }, view };
}

const item = (id, status, result) => ({ id, description: id, status, result });

test('two threads are matched by the ids of their items', () => {
  const one = thread('a', [item('x', 'completed', 1), item('y', 'pending'), item('old', 'pending')]);
  const other = thread('b', [item('x', 'completed', 1), item('y', 'completed', 2), item('new', 'pending')]);
  assert.deepEqual(matched(one, other).map((row) => [row.id, row.differs, row.a !== null, row.b !== null]),
    [['x', false, true, true], ['y', true, true, true], ['old', true, true, false], ['new', true, false, true]]);
});

test('what happened since they parted', () => {
  const runs = new Map([['r', { seq: 8, end: 5, endSeq: 20, resultStatus: 'success', status: 'completed' }]]);
  const fork = thread('b', [], {
    forkedFrom: { threadId: 'a', seq: 40 }, runs, runOrder: ['r'],
    messages: [{ seq: 2, kind: 'kept', role: 'USER', content: 'before' }, { seq: 8, kind: 'start', role: 'USER', by: 'jon', content: 'after' }],
    questions: new Map([['s', { seq: 12, itemId: 'pay', toolName: 'refund', policy: { rule: 'large' }, ended: { seq: 13, decision: 'approved', decidedBy: 'mara' } }]]),
  });
  const parted = partedAt(thread('a', []), fork);
  assert.deepEqual(parted, { a: 40, b: 7 });
  assert.deepEqual(happenings(fork, parted.b).map((one) => [one.seq, one.where, one.text]), [
    [8, 'jon', 'after'], [12, 'pay', 'refund asks: large'], [13, 'pay', 'approved by mara'], [20, '', 'run done']]);
  assert.equal(partedAt(thread('a', []), thread('c', [])), null);
});
