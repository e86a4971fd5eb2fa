import assert from 'node:assert/strict';
import { test } from 'node:test';
import { happenings, matched, partedAt } from '../../../console/branches.js';
import { Table } from '../../../console/fold/view.js';
import { basisText, costText, decides, sentence, strictest } from '../../../console/outlook.js';

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

test('that nothing is denied stands only where nothing can be', () => {
  const [deny, auto] = [rule('deny'), rule('auto')];
  const tool = { toolName: 'refund', policy: auto };
  const item = { id: 'pay', status: 'pending', mayCall: [{ toolName: 'refund', action: 'auto', conditional: true }] };
  const ends = (one, ...tools) => sentence({ items: [one], tools }).split('. ').slice(1).join('. ');
  assert.equal(ends(item, tool), 'Nothing is denied.');
  assert.equal(ends(item, { ...tool, conditions: [{ policy: deny, when: [] }] }), '1 item may be denied a tool.');
  assert.equal(ends({ ...item, mayCall: [{ ...item.mayCall[0], action: 'deny' }] }, { ...tool, policy: deny, conditions: [{ policy: auto, when: [] }] }),
    '1 item may be denied a tool.');
  assert.equal(ends({ ...item, mayCall: [{ ...item.mayCall[0], action: 'deny', conditional: false }] }, { ...tool, policy: deny }), '1 item will be denied a tool.');
  assert.equal(ends(item, { ...tool, moreConditions: true }), '1 item may be denied a tool.');
  const any = { id: 'any', status: 'pending', mayCallAny: true };
  assert.equal(ends(any, tool), 'Nothing is denied.');
  assert.equal(ends(any, { ...tool, policy: deny }), '1 item may be denied a tool.');
});

test('what it may cost names its basis, and an unknown price is none', () => {
  const cost = { provider: 'a', model: 'm', items: 2, lowUsd: 0.04, highUsd: 0.2, basis: { days: 30, items: 10, calls: 31, unpricedItems: 0 } };
  const none = { ...cost, lowUsd: undefined, highUsd: undefined, basis: { days: 30, items: 0, calls: 0, unpricedItems: 0 } };
  const unpriced = { ...none, basis: { ...none.basis, unpricedItems: 3 } };
  assert.equal(costText(cost), '$0.040 – $0.200');
  assert.equal(basisText(cost), 'Cost: by 10 items (31 calls) of a:m in the last 30 days, without the cheapest and the dearest tenth, times 2.');
  assert.equal(costText({ ...cost, lowUsd: 0.2 }), 'about $0.200');
  assert.equal(costText({ ...cost, atMostUsd: 0.1 }), '$0.040 – $0.100');
  assert.equal(costText(none), null);
  assert.equal(basisText(none), 'Cost: no item of a:m ran in the last 30 days.');
  assert.equal(costText({ ...none, atMostUsd: 0.4 }), 'at most $0.400');
  assert.equal(basisText({ ...none, atMostUsd: 0.4 }), 'Cost: no item of a:m ran in the last 30 days. At most $0.400: what is left of the budget.');
  assert.equal(costText(unpriced), 'no price known');
  assert.equal(basisText(unpriced), 'Cost: items of a:m had no price: add one under prices.');
});

function thread(id, items, more = {}) {
  const view = {
    seq: 9, costs: new Map(), messages: [], revisions: [], questions: new Map(), restarts: [], itemSpans: new Map(), spans: new Table(), runs: new Map(), runOrder: [],
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

test('an item costs what its priced calls cost, and nothing is said of one without a priced call', () => {
  const ids = ['paid', 'failed', 'mixed'];
  const costs = [{ costUsd: 0.5, priced: 1, unpriced: 0 }, { costUsd: 0, priced: 0, unpriced: 0 }, { costUsd: 0.5, priced: 1, unpriced: 1 }];
  const one = thread('a', ids.map((id) => item(id, 'completed')), { costs: new Map(ids.map((id, i) => [id, costs[i]])) });
  assert.deepEqual(matched(one, one).map(({ a }) => a.costUsd), [0.5, null, null]);
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
