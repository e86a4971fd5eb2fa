import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Problem } from '../../../console/api.js';
import { stateBody } from '../../../console/fold/core.js';
import { createHistory, openThread } from '../../../console/store.js';
import { withRow } from '../../../console/views/question/tab.js';
import { goldens } from '../support/golden.mjs';

const LOG = readFileSync(new URL('../../golden/console/again.ndjson', import.meta.url), 'utf8').trim().split('\n')
  .map((line) => JSON.parse(line).observation);

/** A thread whose socket is the test's. `settled()`: all that was heard is folded. */
function opened({ listed, clock = { now: () => 0 } } = {}) {
  const socket = { again: 0, closed: 0 };
  const api = {
    problem: null,
    reads: 0,
    runs: [],
    answers: {},
    async all(path) {
      if (!path.startsWith('/runs')) return { items: await api.get(path) };
      if (api.problem) throw api.problem;
      return { items: await api.runs };
    },
    async get(path) {
      if (Object.hasOwn(api.answers, path)) return api.answers[path];
      api.reads += 1;
      if (api.problem) throw api.problem;
      return { threadId: 'again', title: 'Of the list' };
    },
  };
  const open = ({ on, after }) => {
    Object.assign(socket, on, { after });
    return { again: (ready) => { socket.again += 1; socket.ready = ready; }, close: () => { socket.closed += 1; }, retryNow() {} };
  };
  const tokens = { token() {}, ended() {} };
  const thread = openThread({ id: 'again', api, clock, tokens, listed, changed() {}, open });
  const hear = (observations) => observations.forEach((one) => socket.frame('observation', one));
  const settled = () => new Promise((done) => { setTimeout(() => setTimeout(done)); });
  return { api, socket, thread, hear, settled };
}

async function caughtUp(all) {
  all.socket.frame('caught_up', {});
  await all.settled();
}

test('what is told twice after a connection ended is folded once', async () => {
  const one = opened();
  one.hear(LOG.slice(0, 20));
  await caughtUp(one);
  one.hear(LOG.slice(10));
  await caughtUp(one);
  const whole = opened();
  whole.hear(LOG);
  await caughtUp(whole);
  const [got, wants] = [one.thread.thread(), whole.thread.thread()];
  assert.equal(got.seq, LOG.at(-1).seq);
  assert.deepEqual(got.log, LOG);
  assert.deepEqual(got.core, wants.core);
  assert.equal(one.socket.again, 0);
});

test('a hole is not shown: all after what is known is asked for again', async () => {
  const one = opened();
  one.hear([...LOG.slice(0, 5), ...LOG.slice(7)]);
  await caughtUp(one);
  assert.equal(one.socket.again, 1);
  assert.ok(one.thread.thread().seq < 8);
  one.hear(LOG.slice(one.thread.thread().seq));
  await caughtUp(one);
  assert.deepEqual(one.thread.thread().log, LOG);
});

test('where the log begins after what is known, the state and the words before it are read', async () => {
  const log = goldens().find(({ name }) => name === 'demo').log.map(({ observation }) => observation);
  const ends = log.filter(({ type }) => type === 'RUN_FINISHED').map(({ seq }) => seq);
  const whole = createHistory();
  whole.add(log);
  const words = (view) => view.messages.map(({ messageId }) => messageId);
  // The part of the conversation that the server keeps includes what the rest of the log contains.
  const messages = [...new Map(whole.last.view.messages.map((one) => [one.messageId, one])).values()]
    .map(({ messageId, role, content, at, runId }) => ({ messageId, threadId: 'again', role, content, timestamp: at, runId }));
  for (const [known, cut] of [[0, ends[0]], [20, ends[1]], [0, log.length]]) {
    const one = opened();
    one.hear(log.slice(0, known));
    await caughtUp(one);
    one.api.answers = {
      [`/threads/again/state?at=${cut}`]: stateBody(whole.at(cut).core, { threadId: 'again', minSeq: cut + 1 }),
      '/threads/again/messages?limit=200': messages,
      [`/threads/again/events?after=${cut}&limit=1`]: { items: log.slice(cut, cut + 1) },
    };
    one.socket.frame('gap', { fromSeq: cut + 1 });
    await one.socket.ready;
    assert.deepEqual([one.socket.again, one.socket.after()], [1, cut]);
    assert.deepEqual(words(one.thread.thread().view), words(whole.at(cut).view));
    one.hear(log.slice(cut));
    await caughtUp(one);
    const { core, view, problem } = one.thread.thread();
    assert.deepEqual([core, problem], [stateBody(whole.last.core, { threadId: 'again', minSeq: cut + 1 }), null]);
    assert.deepEqual(words(view), words(whole.last.view));
    // A second notice is not a second gap: the reader was too slow.
    one.socket.frame('gap', { fromSeq: log.length + 1 });
    assert.deepEqual([one.socket.again, one.socket.ready], [2, null]);
  }
});

test('a reader that is too slow to fold what it was sent loses nothing of the log', async () => {
  const one = opened();
  one.hear(LOG.slice(0, 20));
  await caughtUp(one);
  one.hear(LOG.slice(20, 30));
  one.socket.frame('gap', { fromSeq: 31 });
  assert.deepEqual([one.socket.again, one.socket.ready], [1, null]);
  await one.settled();
  one.hear(LOG.slice(one.socket.after()));
  await caughtUp(one);
  const { log, minSeq } = one.thread.thread();
  assert.deepEqual([log, minSeq], [LOG, 1]);
});

test('where the log went back to an earlier state, what is known is forgotten and it is read anew', async () => {
  const log = goldens().find(({ name }) => name === 'demo').log.map(({ observation }) => observation);
  const one = opened();
  one.hear(log);
  await caughtUp(one);
  one.api.answers = {
    '/threads/again/state?at=0': stateBody(createHistory().last.core, { threadId: 'again', minSeq: 1 }),
    '/threads/again/messages?limit=200': [],
    '/threads/again/events?after=0&limit=1': { items: log.slice(0, 1) },
  };
  one.socket.frame('gap', { fromSeq: 1 });
  await one.socket.ready;
  assert.deepEqual([one.socket.again, one.socket.after()], [1, 0]);
  one.hear(log.slice(0, 20));
  await caughtUp(one);
  const whole = createHistory();
  whole.add(log);
  assert.deepEqual(one.thread.thread().core, stateBody(whole.at(20).core, { threadId: 'again', minSeq: 1 }));
});

test('a log that cannot be folded is said to be so, and is not asked for again and again', async () => {
  const one = opened();
  one.hear(LOG.slice(0, 20));
  await caughtUp(one);
  one.socket.frame('observation', { ...LOG[20], type: 'PLAN', content: null });
  await one.settled();
  const { status, problem } = one.thread.thread();
  assert.deepEqual([status, problem.code, one.socket.closed, one.socket.again], ['failed', 'page_failed', 1, 0]);
});

test('when the socket ends the thread is asked whether it is there still', async () => {
  const one = opened();
  one.hear(LOG);
  await caughtUp(one);
  assert.equal(one.thread.thread().status, 'ready');
  const before = one.api.reads;
  one.socket.held(1000);
  await one.settled();
  assert.equal(one.api.reads, before + 1);
  assert.equal(one.thread.thread().status, 'ready', 'what is known stays while the server is away');
  one.api.problem = new Problem(404, { title: 'There is no thread again.' });
  one.socket.held(1000);
  await one.settled();
  assert.deepEqual([one.thread.thread().status, one.socket.closed], ['failed', 1]);
});

test('without a connection the clocks stop where they were, also after the last observation', async () => {
  const last = LOG.at(-1).timestamp;
  let now = last + 500_000;
  const one = opened({ clock: { now: () => now } });
  one.hear(LOG);
  await caughtUp(one);
  assert.equal(one.thread.thread().now, last + 500_000);
  one.socket.held(1000);
  now += 60_000;
  one.socket.held(1000);
  assert.equal(one.thread.thread().now, last + 500_000);
  await caughtUp(one);
  assert.equal(one.thread.thread().now, last + 560_000);
  // After a silence they stop where the server was last heard.
  one.socket.held(1000, 45_000);
  assert.equal(one.thread.thread().now, last + 515_000);
  one.thread.show(20);
  assert.equal(one.thread.thread().now, LOG[19].timestamp);
});

test('in the past a thread has the title of its first plan, and none before it', async () => {
  const titled = (seq, title) => ({ ...LOG[0], seq, type: 'TITLE', content: { title } });
  const one = opened();
  one.hear([LOG[0], titled(2, 'Team dinner'), titled(3, 'Dinner invitation'), { ...LOG[1], seq: 4 }]);
  await caughtUp(one);
  const at = (seq) => {
    one.thread.show(seq);
    return one.thread.thread().title;
  };
  assert.deepEqual([1, 2, 3, 4].map(at), [LOG[0].content.query, 'Team dinner', 'Team dinner', 'Of the list']);
});

const turn = () => new Promise((done) => { setImmediate(done); });
const refused = (status, retryable) => new Problem(status, { title: 'Not now', retryable });

test('a row that cannot be read now is read again after a pause; a refused one is not', async (t) => {
  const one = opened();
  one.hear(LOG);
  await caughtUp(one);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const reads = async (ms) => {
    const before = one.api.reads;
    t.mock.timers.tick(ms);
    await turn();
    return one.api.reads - before;
  };
  one.api.problem = refused(429, true);
  one.socket.frame('caught_up', {});
  assert.equal(await reads(0), 1);
  assert.deepEqual([await reads(2999), await reads(1), await reads(2999)], [0, 1, 0]);
  one.api.problem = null;
  assert.deepEqual([await reads(1), await reads(10_000)], [1, 0]);
  assert.equal(one.thread.thread().problem, null);
  one.api.problem = refused(403, false);
  one.socket.frame('caught_up', {});
  assert.deepEqual([await reads(0), await reads(10_000)], [1, 0]);
  one.api.problem = refused(429, true);
  one.socket.frame('caught_up', {});
  assert.equal(await reads(0), 1);
  one.thread.close();
  assert.equal(await reads(10_000), 0);
});

test('where the state before the log is refused the page says so; where it cannot be read now it waits', async (t) => {
  const one = opened();
  await caughtUp(one);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  /** Until the read is refused: its module is loaded first. */
  const gap = async () => {
    const before = one.api.reads;
    one.socket.frame('gap', { fromSeq: 9 });
    while (one.api.reads === before) await turn();
    await turn();
  };
  one.api.problem = refused(503, true);
  await gap();
  let isReady = false;
  one.socket.ready.then(() => { isReady = true; });
  t.mock.timers.tick(2999);
  await turn();
  assert.deepEqual([isReady, one.socket.closed], [false, 0]);
  t.mock.timers.tick(1);
  await turn();
  assert.equal(isReady, true);
  one.api.problem = refused(403, false);
  await gap();
  const { status, problem } = one.thread.thread();
  assert.deepEqual([status, problem.status, one.socket.closed], ['failed', 403, 1]);
});

const RUN = LOG[0].runId;
/** As much of the log as the run is told to be under way in. */
const UNDER_WAY = LOG.slice(0, 30);
const run = (status) => ({ runId: RUN, status });

test('what is read after a reconnection counts more than what was told before it', async () => {
  const one = opened();
  one.hear(UNDER_WAY);
  await caughtUp(one);
  assert.equal(one.thread.thread().core.status, 'running');
  one.socket.frame('run', run('suspended'));
  assert.equal(one.thread.thread().runStatus, 'suspended');
  one.socket.held(1000);
  await one.settled();
  one.api.runs = [run('running')];
  await caughtUp(one);
  assert.equal(one.thread.thread().runStatus, 'running');
  one.api.runs = [run('waiting')];
  await caughtUp(one);
  assert.equal(one.thread.thread().runStatus, 'waiting');
});

test('until it is read how the run stands now, it stands as the log has it', async () => {
  const one = opened();
  one.api.runs = [run('suspended')];
  one.hear(UNDER_WAY);
  await caughtUp(one);
  assert.equal(one.thread.thread().runStatus, 'suspended');
  one.api.runs = new Promise(() => {});
  await caughtUp(one);
  assert.equal(one.thread.thread().runStatus, 'running');
});

test('an answer that is older than what was told meanwhile changes nothing', async () => {
  const one = opened();
  one.hear(UNDER_WAY);
  await caughtUp(one);
  let answer;
  one.api.runs = new Promise((resolve) => { answer = resolve; });
  await caughtUp(one);
  one.socket.frame('run', run('waiting'));
  answer([run('running')]);
  await one.settled();
  assert.equal(one.thread.thread().runStatus, 'waiting');
  // The same with two responses that arrive in the other order.
  const answers = [];
  const asked = () => {
    one.api.runs = new Promise((resolve) => { answers.push(resolve); });
    return caughtUp(one);
  };
  await asked();
  await asked();
  answers[1]([run('suspended')]);
  await one.settled();
  answers[0]([run('waiting')]);
  await one.settled();
  assert.equal(one.thread.thread().runStatus, 'suspended');
});

test('a thread has the title and the standing of its row in the list, which is current', async () => {
  let row = null;
  const one = opened({ listed: () => row });
  one.hear(LOG);
  await caughtUp(one);
  assert.equal(one.thread.thread().title, 'Of the list');
  row = { threadId: 'again', title: 'Renamed since', status: 'quarantined' };
  assert.deepEqual([one.thread.thread().title, one.thread.thread().row], ['Renamed since', row]);
  one.thread.show(3);
  assert.notEqual(one.thread.thread().title, 'Renamed since');
});

test('a question of the past is shown without what the list of questions knows by now', () => {
  const question = { suspensionId: 's', kind: 'approval', message: 'Send it?' };
  const ctx = { questions: [{ suspensionId: 's', status: 'resolved', url: '#/questions/s' }] };
  const thread = (replay) => ({ id: 't', replay, view: { questions: new Map([['s', { seq: 7 }]]) } });
  assert.equal(withRow(ctx, thread(false), question).status, 'resolved');
  assert.deepEqual(withRow(ctx, thread(true), question), { ...question, seq: 7, threadId: 't' });
});
