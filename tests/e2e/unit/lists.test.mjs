import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../../../console/api.js';
import { createLists } from '../../../console/lists.js';

const row = (threadId) => ({ threadId, status: 'idle' });
const asked = (suspensionId, status = 'pending') => ({ suspensionId, threadId: 'a', status });

/** Lists of a server with one thread, and its socket. */
function listed(target = null) {
  const socket = { closed: 0 };
  let reads = 0;
  const api = {
    away: false,
    refusal: null,
    held: null,
    version: '1.0.0',
    caller: 'ann',
    async get(path) {
      if (path === '/version') return { version: api.version };
      if (path === '/whoami') return { keyName: api.caller };
      reads += 1;
      await api.held;
      if (api.away) throw new Problem(0, { title: 'The server does not answer.' });
      if (api.refusal) throw new Problem(api.refusal, { title: 'Not now', ...(api.refusal === 429 && { retryable: true }) });
      return { items: [row('a')] };
    },
    all: async () => ({ items: [asked('q')] }),
  };
  const open = ({ on }) => {
    Object.assign(socket, on);
    return { retryNow() {}, close: () => { socket.closed += 1; } };
  };
  const readers = [];
  const lists = createLists({ api, changed() {}, readBy: ({ keyName }) => readers.push(keyName), open, target });
  lists.start();
  return { lists, api, socket, now: lists.lists, reads: () => reads, readers };
}

test('what the socket tells stands in the lists, and what it may have missed is read', async () => {
  const { lists, socket, now, reads } = listed();
  await lists.read();
  socket.frame('thread', row('b'));
  socket.frame('suspension', asked('r'));
  assert.deepEqual([now.threads.map((one) => one.threadId), now.questions.map((one) => one.suspensionId)], [['b', 'a'], ['q', 'r']]);
  socket.frame('suspension', asked('r', 'resolved'));
  socket.frame('thread_deleted', { threadId: 'a' });
  assert.deepEqual([now.threads, now.questions], [[row('b')], []]);
  const before = reads();
  socket.frame('gap', { fromSeq: 0 });
  assert.equal(reads(), before + 1);
  await lists.read();
  assert.deepEqual(now.threads, [row('a')]);
});

test('what is told while the lists are read stands in them, and what was missed is read once more', async () => {
  const { lists, api, socket, now, reads } = listed();
  await lists.read();
  let release;
  api.held = new Promise((resolve) => { release = resolve; });
  const before = reads();
  const reading = lists.read();
  socket.frame('suspension', asked('r'));
  socket.frame('suspension', asked('q', 'resolved'));
  socket.frame('thread', row('b'));
  socket.frame('ping', {});
  release();
  await reading;
  assert.deepEqual([now.questions.map((one) => one.suspensionId), now.threads.map((one) => one.threadId)], [['r'], ['b', 'a']]);
  api.held = new Promise((resolve) => { release = resolve; });
  lists.read();
  socket.frame('caught_up', {});
  const [second, third] = [lists.read(), lists.read()];
  assert.equal(second, third, 'once more, however often it is asked for');
  assert.equal(reads(), before + 2);
  release();
  await second;
  assert.equal(reads(), before + 3);
});

test('what was read for another key is in no list', async () => {
  const { lists, api, now } = listed();
  await lists.read();
  let release;
  api.held = new Promise((resolve) => { release = resolve; });
  const late = lists.read();
  lists.stop();
  lists.start();
  api.away = true;
  release();
  await late;
  assert.deepEqual([now.threads, now.problem], [null, null]);
  lists.stop();
});

test('who reads is told before the lists, and also where they are refused', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lists, api, now, readers } = listed();
  await lists.read();
  readers.length = 0;
  for (const refusal of [403, 429, 503]) {
    Object.assign(api, { refusal, caller: `as ${refusal}` });
    await lists.read();
    assert.deepEqual([now.problem.status, readers.pop()], [refusal, `as ${refusal}`]);
  }
  let release;
  Object.assign(api, { refusal: null, caller: 'bob', held: new Promise((resolve) => { release = resolve; }) });
  const reading = lists.read();
  await new Promise(setImmediate);
  assert.equal(readers.pop(), 'bob');
  lists.stop();
  release();
  await reading;
  await lists.read();
  assert.deepEqual(readers, [], 'nobody reads them any more');
});

test('a server that is away is asked, and says so by its silence', async () => {
  const { lists, api, socket, now } = listed();
  await lists.read();
  api.away = true;
  await socket.held(1000);
  assert.equal(now.problem.isUnreachable, true);
  api.away = false;
  await socket.held(2000);
  assert.equal(now.problem, null);
});

test('nothing is left of them for who signs in next, nor does it come late', async () => {
  const { lists, socket, now } = listed();
  const late = lists.read();
  lists.stop();
  await late;
  assert.deepEqual([now.threads, now.questions, socket.closed], [null, null, 1]);
});

test('a request without an answer is made again, though the socket is open: after a pause, or when there is a network', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const target = new EventTarget();
  const { lists, api, now, reads } = listed(target);
  await lists.read();
  api.away = true;
  await lists.read();
  assert.equal(now.problem.isUnreachable, true);
  const before = reads();
  t.mock.timers.tick(2999);
  assert.equal(reads(), before);
  api.away = false;
  t.mock.timers.tick(1);
  assert.equal(reads(), before + 1);
  await new Promise(setImmediate);
  assert.equal(now.problem, null);
  target.dispatchEvent(new Event('online'));
  assert.equal(reads(), before + 2);
  await new Promise(setImmediate);
  api.away = true;
  await lists.read();
  lists.stop();
  t.mock.timers.tick(3000);
  target.dispatchEvent(new Event('online'));
  assert.equal(reads(), before + 3);
});

test('an answer that the server cannot give now is asked for again, later each time; a refusal is not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { lists, api, now, reads } = listed();
  await lists.read();
  const failsAfter = async (pauses) => {
    for (const pause of pauses) {
      const before = reads();
      t.mock.timers.tick(pause - 1);
      assert.equal(reads(), before, `${pause}`);
      t.mock.timers.tick(1);
      assert.equal(reads(), before + 1, `${pause}`);
      await new Promise(setImmediate);
    }
  };
  api.refusal = 503;
  await lists.read();
  await failsAfter([3000, 6000, 12_000, 24_000, 30_000]);
  assert.equal(now.problem.status, 503);
  api.refusal = null;
  await failsAfter([30_000]);
  assert.equal(now.problem, null);
  api.refusal = 500;
  await lists.read();
  await failsAfter([3000]);
  api.refusal = null;
  await failsAfter([6000]);
  api.refusal = 429;
  await lists.read();
  await failsAfter([3000]);
  api.refusal = 403;
  await lists.read();
  const before = reads();
  t.mock.timers.tick(60_000);
  assert.equal(reads(), before);
});

test('the newest two hundred threads are kept, and that there are more is known', async () => {
  const { lists, socket, now } = listed();
  await lists.read();
  for (let i = 1; i < 200; i++) socket.frame('thread', row(`t${i}`));
  assert.deepEqual([now.threads.length, now.threads.at(-1).threadId, now.more], [200, 'a', false]);
  socket.frame('thread', row('t1'));
  assert.deepEqual([now.threads.length, now.threads[0].threadId, now.more], [200, 't1', false]);
  socket.frame('thread', row('t200'));
  assert.deepEqual([now.threads.length, now.threads[0].threadId, now.threads.at(-1).threadId, now.more], [200, 't200', 't2', true]);
});

test('a thread that comes or goes is counted, also where the list keeps its length', async () => {
  const { lists, socket, now } = listed();
  await lists.read();
  for (let i = 1; i < 200; i++) socket.frame('thread', row(`t${i}`));
  const before = now.changes;
  const changesBy = (event, data) => {
    socket.frame(event, data);
    return [now.threads.length, now.changes - before];
  };
  assert.deepEqual(changesBy('thread', row('t1')), [200, 0]);
  assert.deepEqual(changesBy('thread', row('t200')), [200, 1]);
  assert.deepEqual(changesBy('thread_deleted', { threadId: 'unknown' }), [200, 2]);
});

test('another version of the server is noticed, also after signing out, and stays so', async () => {
  const { lists, api, socket, now } = listed();
  await lists.read();
  await lists.read();
  assert.equal(now.isUpgraded, false);
  api.version = '1.1.0';
  socket.frame('caught_up', {});
  await lists.read();
  assert.equal(now.isUpgraded, true);
  lists.stop();
  api.version = '1.0.0';
  lists.start();
  await lists.read();
  assert.equal(now.isUpgraded, true);
});
