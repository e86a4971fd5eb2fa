// The index of the log is the same from one batch, from single observations and from a checkpoint, and is right for recorded runs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyView, foldView } from '../../../console/fold/view.js';
import { waited } from '../../../console/fold/waits.js';
import { stateBody } from '../../../console/fold/core.js';
import { createHistory } from '../../../console/store.js';
import { costOf } from '../../../console/views/timeline/row.js';
import { timelineRows, windowOf } from '../../../console/views/timeline/rows.js';
import { goldens } from '../support/golden.mjs';
import { addedBy } from '../../../console/words.js';

const logs = new Map(goldens().map(({ name, log }) => [name, log.map(({ observation }) => observation)]));
const plain = (view) => JSON.stringify({
  ...view, spans: [...view.spans], runs: [...view.runs], itemSpans: [...view.itemSpans], questions: [...view.questions], costs: [...view.costs],
});
const whole = (name) => foldView(emptyView(), logs.get(name));
const spans = (view, kind) => [...view.spans].filter((span) => span.kind === kind);

test('one by one, in one batch and in batches of seven come to the same', () => {
  for (const [name, log] of logs) {
    const wants = plain(foldView(emptyView(), log));
    let one = emptyView();
    for (const observation of log) one = foldView(one, [observation]);
    assert.ok(plain(one) === wants, name);
    let sevens = emptyView();
    for (let i = 0; i < log.length; i += 7) sevens = foldView(sevens, log.slice(i, i + 7));
    assert.ok(plain(sevens) === wants, name);
  }
});

test('the past of a history is what a fold of its beginning gives, in any order', () => {
  const again = (_, n) => JSON.parse(JSON.stringify(logs.get('demo')).replace(/\b(run|str|call|sus|msg)_/g, `$1_${n}_`));
  const log = Array.from({ length: 6 }, again).flat().map((observation, i) => ({ ...observation, seq: i + 1 }));
  const history = createHistory();
  assert.ok(history.add(log));
  for (const seq of [1, 700, 199, 200, 201, 450, 449, 3, log.length, 401]) {
    assert.ok(plain(history.at(seq).view) === plain(foldView(emptyView(), log.slice(0, seq))), `${seq}`);
    assert.equal(history.at(seq).seq, seq);
  }
});

test('a history drops what it has and does not take a hole', () => {
  const log = logs.get('demo');
  const history = createHistory();
  assert.ok(history.add(log.slice(0, 10)));
  assert.ok(history.add(log.slice(5, 12)));
  assert.equal(history.lastSeq, 12);
  assert.equal(history.add(log.slice(13, 20)), false);
  assert.equal(history.lastSeq, 12);
});

test('a conversation that was held elsewhere stands before the first query', () => {
  const { messages } = whole('brought');
  assert.deepEqual(messages.slice(0, 3).map(({ kind, role }) => [kind, role]), [['history', 'USER'], ['history', 'AI'], ['start', 'USER']]);
  assert.equal(messages[1].content, 'Noted. '.repeat(100));
});

test('a thread that went back shows what is said now', () => {
  const view = whole('back');
  assert.deepEqual(view.messages.map(({ kind }) => kind), ['start', 'answer']);
  assert.equal(view.runs.size, 4);
  assert.deepEqual(view.revisions.filter(({ source }) => source === 'rewind').map(({ todoList }) => todoList.length > 0), [true, false]);
});

test('a span has its id from its first observation on', () => {
  const [started] = logs.get('demo');
  assert.equal(started.type, 'RUN_STARTED');
  const id = `run ${started.runId}`;
  const view = foldView(emptyView(), [started]);
  assert.equal(view.spans.get(id).id, id);
  const [row] = timelineRows({ view, core: { todoList: [] } }, view.runs.get(started.runId));
  assert.equal(row.key, id);
});

test('nothing is open in a run that is over', () => {
  for (const [name, log] of logs) {
    const view = foldView(emptyView(), log);
    for (const span of view.spans) {
      if (view.runs.get(span.runId)?.end != null) assert.notEqual(span.end, null, `${name}: ${span.id}`);
    }
  }
});

test('an item that failed, a call that was made again, a restart and a question are seen', () => {
  assert.equal(whole('retried').failures[0].kind, 'stream');
  const again = whole('again');
  assert.equal(again.restarts.length, 1);
  assert.ok(again.marks.some(({ kind }) => kind === 'restart'));
  const doubt = whole('doubt');
  assert.equal([...doubt.questions.values()][0].kind, 'in_doubt');
  const refused = [...whole('refused').questions.values()][0].ended;
  assert.deepEqual([refused.decision, refused.reason], ['rejected', 'Not yet.']);
  assert.equal([...whole('expired').questions.values()][0].ended.timedOut, true);
  assert.equal(spans(whole('delegated'), 'task')[0].agentId, 'helper');
  assert.deepEqual(whole('forked').forkedFrom, { threadId: 'edited', seq: 20 });
});

test('each change of the plan has its author, and a refinement that changes nothing is none', () => {
  assert.deepEqual(whole('changed').revisions.map(({ source, itemId }) => [source, itemId]), [['planner', null], ['agent', 'look']]);
  const slow = whole('slow').revisions;
  assert.deepEqual(slow.map(({ source }) => source), ['planner', 'user']);
  assert.ok(slow[1].by);
  assert.equal(whole('demo').revisions.length, 3);
});

/** Observations of one run, `told` as `[type, content, more]`. */
const observed = (told) => told.map(([type, content, more], i) => ({ seq: i + 1, timestamp: 1000 + i, type, content, runId: 'r', ...more }));

const said = (content, requestedBy) => ({ messageId: content, role: 'USER', content, requestedBy });
const planned = (source, added, removed = []) => {
  const changes = [...added, ...removed];
  return ['PLAN_UPDATE', { source, planVersion: 1, todoList: [], changes: { changes, added, modified: [], removed } }];
};

test('a change of the plan is of who asked for it, not of who waits in the queue', () => {
  const log = observed([
    ['RUN_STARTED', { query: 'Plan a trip', message: said('Plan a trip', 'ann') }],
    ['STATE_UPDATE', { keys: ['queue'], message: said('Then a poem', 'bob') }],
    planned('planner', [{ itemId: 'hotel' }]),
    ['STATE_UPDATE', { keys: [], message: said('Leave out the hotel', 'ann') }],
    ['STATE_UPDATE', { keys: ['queue'], message: said('And a song', 'bob') }],
    planned('refinement', [], [{ itemId: 'hotel' }]),
    ['RUN_STARTED', { query: 'Then a poem', message: said('Then a poem', 'bob') }, { runId: 's' }],
    [...planned('refinement', [{ itemId: 'poem' }]), { runId: 's' }],
  ]);
  const { revisions } = foldView(emptyView(), log);
  assert.deepEqual(revisions.map(({ by, because }) => [by, because]),
    [['ann', 'Plan a trip'], ['ann', 'Leave out the hotel'], ['bob', 'Then a poem']]);
});

test('what the model says to a person who steers is no steering', () => {
  const log = observed([
    ['RUN_STARTED', { query: 'Plan a trip', message: said('Plan a trip', 'ann') }],
    ['STATE_UPDATE', { keys: [], message: said('Leave out the hotel', 'ann') }],
    ['STATE_UPDATE', { keys: [], message: { messageId: 'ai', role: 'AI', content: 'It is left out.' } }],
  ]);
  const view = foldView(emptyView(), log);
  assert.deepEqual(view.messages.map(({ kind }) => kind), ['start', 'steer', 'reply']);
  assert.deepEqual(view.marks, [{ seq: 2, kind: 'person' }]);
});

test('an item that was removed and added again is of who added it last', () => {
  const log = observed([
    planned('planner', [{ itemId: 'notify' }]), planned('user', [], [{ itemId: 'notify' }]), planned('user', [{ itemId: 'notify' }]),
    // The thread went back.
    ['PLAN', { planVersion: 2, todoList: [{ id: 'notify' }], stepOutputs: {} }, { runId: undefined }],
  ]);
  const view = foldView(emptyView(), log);
  assert.deepEqual([view.revisions.at(-1).source, addedBy(view, 'notify').seq], ['rewind', 3]);
});

test('tokens of the runs sum to those of the thread', () => {
  for (const log of logs.values()) {
    const view = foldView(emptyView(), log);
    const sum = [...view.runs.values()].reduce((n, run) => n + run.input + run.output, 0);
    assert.equal(sum, view.totals.input + view.totals.output);
    for (const run of view.runs.values()) {
      const finished = log.find(({ type, runId }) => type === 'RUN_FINISHED' && runId === run.runId);
      if (finished) assert.equal(run.input, finished.content.usage.inputTokens, finished.runId);
    }
  }
});

test('what an item waited for sums to its time', () => {
  for (const [name, log] of logs) {
    const history = createHistory();
    history.add(log);
    const { view, core } = history.last;
    const thread = { view, log, core: stateBody(core, { threadId: name, minSeq: 1 }), now: view.at };
    for (const [item, ids] of view.itemSpans) {
      const span = view.spans.get(ids.at(-1));
      const inside = waited(thread, item).filter(({ what }) => what !== 'dependencies' && what !== 'place');
      const sum = inside.reduce((ms, part) => ms + part.ms, 0);
      assert.equal(sum, (span.end ?? view.at) - span.start, `${name}: ${item}`);
    }
  }
});

test('the timeline has a row for each span of an open branch, and shuts what is done', () => {
  const view = whole('demo');
  const run = view.runs.get(view.runOrder[0]);
  const thread = { view, core: { todoList: [] } };
  const shut = timelineRows(thread, run);
  assert.ok(shut.every(({ depth }) => depth < 2));
  const toggled = new Set(shut.map(({ key }) => key));
  const open = timelineRows(thread, run, { toggled });
  assert.equal(open.length, [...view.spans].filter(({ runId }) => runId === run.runId).length);
  const errors = timelineRows(thread, run, { filter: 'Errors' });
  assert.deepEqual(errors.map(({ kind }) => kind), ['run', 'item', 'call']);
});

test('only what is in sight of ten thousand rows is drawn', () => {
  const tops = Array.from({ length: 10_001 }, (_, i) => i * 26);
  const { from, to } = windowOf(tops, 5000 * 26, 400);
  assert.ok(to - from < 60 && from <= 4980 && to >= 5016);
  assert.deepEqual(windowOf([0, 26], 0, 400), { from: 0, to: 1 });
});

test('an item that was worked on in two runs has in each row the costs of that run', () => {
  const run = (runId, costUsd) => {
    const of = { runId, parentId: 'look' };
    const stream = { streamId: runId, provider: 'p', model: 'm', attempt: 1, inputTokens: 10, outputTokens: 5, costUsd };
    return [
      ['RUN_STARTED', { query: 'Look' }, { runId }], ['ITEM_STATUS_CHANGE', { itemId: 'look', status: 'in_progress' }, of],
      ['LLM_STREAM_START', stream, of], ['LLM_STREAM_METADATA', stream, of], ['LLM_STREAM_END', stream, of],
      ['ITEM_STATUS_CHANGE', { itemId: 'look', status: 'completed' }, of], ['RUN_FINISHED', { status: 'completed' }, { runId }],
    ];
  };
  const view = foldView(emptyView(), observed([...run('one', 0.5), ...run('two', 0.25), ...run('free', undefined)]));
  assert.equal(view.costs.get('look').costUsd, 0.75);
  const costs = view.itemSpans.get('look').map((id) => costOf({ view }, { kind: 'item', span: view.spans.get(id), item: { id: 'look' } }));
  assert.deepEqual(costs, ['$0.500', '$0.250', '15']);
});

test('an attempt that was made again counts as a retry, and not as an error', () => {
  const view = whole('retried');
  const thread = { view, core: { todoList: [] } };
  const told = timelineRows(thread, view.runs.get(view.runOrder[0])).map((row) => row.errors).filter(Boolean);
  assert.deepEqual([told.reduce((sum, one) => sum + one.retries, 0), told.reduce((sum, one) => sum + one.errors, 0)], [1, 0]);
});
