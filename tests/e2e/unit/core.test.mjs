// The page's fold equals the server's, for every recorded log, at every observation.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { empty, fold, fromState, stateBody } from '../../../console/fold/core.js';
import { canonical, digest, goldens } from '../support/golden.mjs';

const all = goldens();

for (const { name, log } of all) {
  test(`the state of ${name} is the server's at each of ${log.length} observations`, () => {
    let state = empty();
    for (const { observation, state: wants } of log) {
      state = fold(state, observation);
      const has = stateBody(state, { threadId: name, minSeq: 1 });
      assert.equal(digest(has), wants, `${observation.seq} ${observation.type}: ${canonical(has)}`);
    }
  });
}

test('every observation type of docs/EVENTS.md stands in a recorded log', () => {
  const events = readFileSync(fileURLToPath(new URL('../../../docs/EVENTS.md', import.meta.url)), 'utf8');
  const types = [...events.slice(events.indexOf('## Observations')).matchAll(/^### ([A-Z][A-Z0-9_]+)$/gm)].map((match) => match[1]);
  assert.ok(types.length >= 20, 'the list of types was not found');
  const seen = new Set(all.flatMap(({ log }) => log.map(({ observation }) => observation.type)));
  assert.deepEqual(types.filter((type) => !seen.has(type)), [], 'record them: tests/e2e/record.mjs');
});

test('folding leaves what it is given untouched', () => {
  const freeze = (value) => {
    if (value && typeof value === 'object' && !(value instanceof Set) && !Object.isFrozen(value)) {
      Object.freeze(value);
      Object.values(value).forEach(freeze);
    }
    return value;
  };
  for (const { log } of all) {
    let state = freeze(empty());
    for (const { observation } of log) state = freeze(fold(state, freeze(observation)));
  }
});

test('an item is called whatever a model calls it', () => {
  const { name, log } = all.find((one) => one.name === 'demo');
  const names = { bill: 'constructor', tip: '__proto__', date: 'toString', share: 'hasOwnProperty' };
  const renamed = (value) => JSON.parse(JSON.stringify(value).replace(/"(bill|tip|date|share)"/g, (_, id) => `"${names[id]}"`));
  let [state, other] = [empty(), empty()];
  for (const { observation } of log) {
    state = fold(state, observation);
    other = fold(other, renamed(observation));
    const [wants, has] = [state, other].map((one) => stateBody(one, { threadId: name, minSeq: 1 }));
    assert.equal(canonical(has), canonical(renamed(wants)), `${observation.seq} ${observation.type}`);
  }
});

test('a run without a plan begins without the item of the last one', () => {
  const told = (seq, type, runId, content) => ({ seq, type, runId, threadId: 't', timestamp: seq, content });
  const item = (status) => ({ itemId: 'run_1', item: { status, updatedTimestamp: 1 }, stepOutput: { stepId: 'run_1', status } });
  const log = [
    told(1, 'RUN_STARTED', 'run_1', { query: 'one' }),
    told(2, 'ITEM_STATUS_CHANGE', 'run_1', item('completed')),
    told(3, 'RUN_FINISHED', 'run_1', { status: 'completed' }),
  ];
  const before = log.reduce(fold, empty());
  assert.deepEqual([before.items.length, Object.keys(before.outputs)], [1, ['run_1']]);
  const after = fold(before, told(4, 'RUN_STARTED', 'run_2', { query: 'two' }));
  assert.deepEqual([after.items, after.outputs, after.called], [[], {}, {}]);
  const planned = fold({ ...before, planVersion: 1 }, told(4, 'RUN_STARTED', 'run_2', { query: 'two' }));
  assert.equal(planned.items.length, 1);
});

test('a type that is not known changes the seq and nothing else', () => {
  const { log } = all.find(({ name }) => name === 'demo');
  let state = empty();
  for (const { observation } of log) state = fold(state, observation);
  const next = fold(state, { seq: state.seq + 1, type: 'LATER', content: {} });
  assert.deepEqual({ ...next, seq: state.seq }, state);
});

test('it goes on from a state that the server told', () => {
  const { name, log } = all.find((one) => one.name === 'demo');
  const cut = log.findIndex(({ observation }) => observation.type === 'RUN_FINISHED') + 1;
  let state = empty();
  for (const { observation } of log.slice(0, cut)) state = fold(state, observation);
  let later = fromState(stateBody(state, { threadId: name, minSeq: cut + 1 }));
  for (const { observation, state: wants } of log.slice(cut)) {
    later = fold(later, observation);
    assert.equal(digest(stateBody(later, { threadId: name, minSeq: 1 })), wants, `${observation.seq}`);
  }
});

test('the only item of a run without a plan is described by its query', () => {
  const moved = (from, status, stepOutput) => (
    { type: 'ITEM_STATUS_CHANGE', runId: 'run_1', content: { itemId: 'run_1', from, item: { status, updatedTimestamp: 2 }, stepOutput } });
  const began = moved('pending', 'in_progress');
  const ended = moved('in_progress', 'completed', { description: 'Sum it up' });
  const described = (state) => state.items.map((item) => item.description);
  let state = fold(empty(), { seq: 1, type: 'RUN_STARTED', runId: 'run_1', content: { query: 'Sum it up' } });
  state = fold(state, { seq: 2, ...began });
  assert.deepEqual(described(state), ['Sum it up']);
  // The log before it is not there.
  state = fold(empty(1), { seq: 2, ...began });
  assert.deepEqual(described(state), ['']);
  assert.deepEqual(described(fold(state, { seq: 3, ...ended })), ['Sum it up']);
});
