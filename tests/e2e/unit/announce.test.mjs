// What is announced to screen readers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAnnouncer } from '../../../console/browser.js';

const item = (status) => ({ id: 'pay', description: 'Pay', status });
const thread = (core) => ({ id: 't', status: 'ready', core: { status: 'running', todoList: [], suspensions: [], ...core }, shown: (one) => one.status });

test('each new question is said once, beside items and the end; the first sight of a thread says nothing', () => {
  const said = [];
  const later = [];
  const announcer = createAnnouncer({ set textContent(line) { said.push(line); } }, (tell) => later.push(tell));
  const see = (core) => {
    announcer.seen(thread(core));
    while (later.length > 0) later.shift()();
    return said.splice(0);
  };
  const first = { suspensionId: 'a', message: 'Pay 5?' };
  assert.deepEqual(see({ suspensions: [first], todoList: [item('pending')] }), []);
  assert.deepEqual(see({ suspensions: [first, { suspensionId: 'b', message: 'Pay 6?' }], todoList: [item('in_progress')] }), ['Pay: running', 'Question: Pay 6?']);
  assert.deepEqual(see({ suspensions: [first, { suspensionId: 'b', message: 'Pay 6?' }], todoList: [item('in_progress')] }), []);
  assert.deepEqual(see({ status: 'idle', todoList: [item('in_progress')] }), ['The run has ended: cancelled']);
  assert.deepEqual(see({ todoList: [item('in_progress')] }), []);
  assert.deepEqual(see({ status: 'failed', todoList: [item('in_progress')] }), ['The run has ended: cancelled']);
});
