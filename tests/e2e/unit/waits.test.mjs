// What an item waited for, and what a run's time was spent on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stateBody } from '../../../console/fold/core.js';
import { spent, waited } from '../../../console/fold/waits.js';
import { createHistory, shownStatus } from '../../../console/store.js';
import { waitText } from '../../../console/views/timeline/row.js';
import { goldens } from '../support/golden.mjs';

const logs = new Map(goldens().map(({ name, log }) => [name, log.map(({ observation }) => observation)]));
const BEGIN = 1_000_000;

/** A thread of one run and the items `a` and `b`: `told` as `[seconds, type, content, itemId]`. */
function threadOf(told, seconds) {
  const todoList = ['a', 'b'].map((id) => ({ id, description: id, status: 'pending', createdTimestamp: BEGIN }));
  const begin = [
    [0, 'RUN_STARTED', { query: 'Go', message: { messageId: 'm', role: 'USER', content: 'Go' } }],
    [0, 'PLAN_UPDATE', { source: 'planner', planVersion: 1, todoList, changes: { changes: [], added: [], modified: [], removed: [] } }],
  ];
  const log = [...begin, ...told].map(([at, type, content, parentId], i) => (
    { seq: i + 1, timestamp: BEGIN + at * 1000, type, content, runId: 'r', ...(parentId ? { parentId } : {}) }));
  return threadAt(log, BEGIN + seconds * 1000);
}

function threadAt(log, now) {
  const history = createHistory();
  history.add(log);
  const { view, core } = history.last;
  const state = stateBody(core, { threadId: 't', minSeq: 1 });
  return { view, log, core: state, now, newestRun: view.runs.get(view.runOrder.at(-1)), shown: (item) => shownStatus(state, item) };
}

const moved = (itemId, from, status) => ['ITEM_STATUS_CHANGE', { itemId, from, status, item: { status } }, itemId];
const asked = (suspensionId, kind, more) => ['AGENT_SUSPENDED', { suspensionId, kind, message: kind, ...more }];
const answered = (suspensionId) => ['AGENT_RESUMED', { suspensionId, decision: 'approved', decidedBy: 'ann' }];
const streams = (streamId, item) => ['LLM_STREAM_START', { streamId, phase: 'execution', provider: 'demo', model: 'm', attempt: 1, iteration: 1 }, item];
const ended = (streamId, item) => ['LLM_STREAM_END', { streamId, text: '' }, item];
const seconds = (parts) => parts.map(({ what, ms, detail }) => [what, ms / 1000, ...(detail ? [detail] : [])]);
const inRun = (thread) => seconds(spent(thread, thread.newestRun));

test('a pause of the run is time of a person, of items under way and of those that are to begin', () => {
  const thread = threadOf([
    [0, ...moved('a', 'pending', 'in_progress')], [0, ...streams('s', 'a')], [10, ...asked('p', 'pause')], [12, ...ended('s', 'a')],
    [1212, ...answered('p')], [1212, ...moved('a', 'in_progress', 'completed')], [1212, ...moved('b', 'pending', 'in_progress')],
  ], 1213);
  assert.deepEqual(seconds(waited(thread, 'a')), [['model', 12], ['person', 1200, 'pause']]);
  assert.deepEqual(seconds(waited(thread, 'b')), [['person', 1202, 'pause'], ['place', 10], ['other', 1]]);
  assert.deepEqual(inRun(thread), [['person', 1202], ['model', 12]]);
});

test('while the whole run waits, its items say for what, and none is called running', () => {
  const of = (kind) => {
    const thread = threadOf([[0, ...moved('a', 'pending', 'in_progress')], [5, ...asked('q', kind)]], 232);
    return [seconds(waited(thread, 'a')), thread.core.status, ...thread.core.todoList.map((item) => [thread.shown(item), waitText(thread, item)])];
  };
  const waits = (kind) => [['other', 5], ['person', 227, kind]];
  assert.deepEqual(of('budget'), [waits('budget'), 'suspended', ['ask', 'asks a person'], ['pending', 'the budget is spent']]);
  assert.deepEqual(of('pause'), [waits('pause'), 'suspended', ['ask', 'asks a person'], ['pending', 'the run is paused']]);
});

test('times of one kind that overlap count once', () => {
  const calls = (callId) => ['TOOL_CALL', { streamId: 's', iteration: 1, toolCalls: [{ callId, toolName: 'send', arguments: {} }] }, callId];
  const thread = threadOf([
    [0, ...moved('a', 'pending', 'in_progress')], [0, ...moved('b', 'pending', 'in_progress')],
    [0, ...streams('s', 'a')], [0, ...streams('t', 'b')], [5, ...ended('s', 'a')], [6, ...ended('t', 'b')],
    [6, ...calls('a')], [6, ...calls('b')], [6, ...asked('q', 'approval', { callId: 'a' }), 'a'], [10, ...asked('p', 'approval', { callId: 'b' }), 'b'],
  ], 40);
  assert.deepEqual(inRun(thread), [['person', 34], ['model', 6]]);
});

test('the time in which the server was down is none of the model', () => {
  const again = { code: 'interrupted', message: 'stopped', retryable: true, retryInMs: 0 };
  const of = (error) => threadOf([
    [0, ...moved('a', 'pending', 'in_progress')], [0, ...streams('s', 'a')], [4, 'STATE_UPDATE', { keys: [] }],
    [44, 'LLM_STREAM_ERROR', { streamId: 's', ...error }, 'a'], [44, ...streams('t', 'a')], [46, ...ended('t', 'a')],
  ], 46);
  assert.deepEqual(seconds(waited(of(again), 'a')), [['model', 6], ['restart', 40]]);
  assert.deepEqual(inRun(of(again)), [['restart', 40], ['model', 6]]);
  // Stopped by a person.
  const stopped = of({ ...again, retryable: false });
  assert.deepEqual([seconds(waited(stopped, 'a')), stopped.view.restarts, stopped.view.marks], [[['model', 46]], [], []]);
  assert.deepEqual(threadAt(logs.get('slow'), 0).view.restarts, []);
  assert.equal(threadAt(logs.get('again'), 0).view.restarts.length, 1);
});
