// Addresses, tokens, the clock, figures, and the vendored file.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { basePath, createApi, Problem } from '../../../console/api.js';
import { Table } from '../../../console/fold/view.js';
import { asCurl } from '../../../console/views/code.js';
import { keep, keptAt } from '../../../console/views/parts.js';
import { beadsOf, titleOf } from '../../../console/views/rail.js';
import { asOf } from '../../../console/views/shell.js';
import * as words from '../../../console/format.js';
import { createClock, tickText } from '../../../console/format.js';
import { openLive } from '../../../console/live.js';
import { changed, parse } from '../../../console/router.js';
import { createTokens } from '../../../console/live.js';
import { authorText, conditionText } from '../../../console/words.js';

const CONSOLE = fileURLToPath(new URL('../../../console', import.meta.url));

test('vendor/preact-htm.js is the file that docs/PAGE.md names', () => {
  const sum = createHash('sha256').update(readFileSync(path.join(CONSOLE, 'vendor/preact-htm.js'))).digest('hex');
  assert.match(readFileSync(path.join(CONSOLE, '../docs/PAGE.md'), 'utf8'), new RegExp(sum));
});

test('a route survives being written as a hash', () => {
  const route = parse('#/t/a%2Fb%20c/list?at=61&sel=x%26y&tab=item&row=7&run=r');
  assert.deepEqual([route.id, route.view, route.at, route.sel, route.tab, route.row, route.run], ['a/b c', 'list', 61, 'x&y', 'item', 7, 'r']);
  assert.deepEqual({ ...parse(changed(route, {})), query: null }, { ...route, query: null });
  assert.equal(parse(changed(route, { at: null })).at, null);
  assert.equal(parse('#/t/%E0%A4%A').id, '%E0%A4%A');
  assert.equal(parse('#/nowhere').page, 'unknown');
  assert.equal(parse('#/t/x?at=abc&tab=none').at, null);
  assert.equal(parse('').page, 'home');
});

test('tokens join at their byte offsets; a hole is seen where it is', () => {
  const frames = [];
  const tokens = createTokens((fn) => frames.push(fn));
  const token = (data, offset) => tokens.token({ streamId: 's', data, offset, tokenType: 'SYNTHESIS_LLM_RESPONSE' });
  const heard = [];
  tokens.listen('s', ({ text }) => heard.push(text));
  token('ä', 0);
  token('b', 2);
  token('b', 2);
  assert.equal(tokens.get('s').text, 'äb');
  assert.equal(frames.length, 1, 'once a frame');
  frames.pop()();
  assert.deepEqual(heard, ['äb']);
  token('z', 9);
  token('!', 10);
  assert.equal(tokens.get('s').text, 'äb … z!');
  tokens.token({ streamId: 's', data: 'so', offset: 4, tokenType: 'SYNTHESIS_LLM_THINKING' });
  assert.deepEqual([tokens.get('s').thinking, tokens.get('s').text], [' … so', 'äb … z!']);
  tokens.ended('s');
  assert.equal(tokens.get('s'), undefined);
});

test('a table shows each version its own records', () => {
  const first = new Table().writer();
  for (let i = 0; i < 130; i++) first.add(`k${i}`, { i });
  const one = first.done();
  const second = one.writer();
  second.edit('k1').i = 'changed';
  second.add('k130', { i: 130 });
  const two = second.done();
  assert.deepEqual([one.get('k1').i, two.get('k1').i, one.all(['k1', 'k130']).length, two.all(['k1', 'k130']).length], [1, 'changed', 1, 2]);
  assert.deepEqual([one.size, two.size, [...two].length], [130, 131, 131]);
});

test('the clock follows the server where the two differ', () => {
  let local = 1_000_000;
  const clock = createClock({ now: () => local });
  clock.heard(new Date(2_000_000).toUTCString(), local, local);
  assert.ok(Math.abs(clock.now() - 2_000_500) < 1000);
  local += 5000;
  assert.ok(Math.abs(clock.now() - 2_005_500) < 1000);
  assert.equal(tickText('since:1000', 8300), '7.3 s');
  assert.equal(tickText('left:1421000', 0), '23:41');
});

test('the clock follows the server also when one of the two was set', () => {
  let local = 1_000_000;
  const clock = createClock({ now: () => local });
  const ask = (ms, server = local) => {
    const sentAt = local;
    local += ms;
    clock.heard(new Date(server).toUTCString(), sentAt, local);
    return Math.abs(clock.now() - server);
  };
  const times = (count, ms, ahead) => Array.from({ length: count }, () => ask(ms, local + ahead)).pop();
  assert.ok(ask(10) < 2000);
  local -= 300_000;
  assert.ok(times(2, 200, 300_000) > 200_000, 'two may be wrong');
  assert.ok(times(1, 200, 300_000) < 2000);
  // What is slow says little, and nothing if the clock was set meanwhile.
  assert.ok(ask(30_000, local + 300_000) < 40_000);
  ask(-300_000, local + 300_000);
  assert.ok(times(3, 200, 600_000) < 2000);
});

test('the clock does not jump between servers whose clocks differ', () => {
  const clock = createClock({ now: () => 1_000_000 });
  const ask = (ahead, ms = 10) => {
    clock.heard(new Date(1_000_000 + ahead).toUTCString(), 1_000_000 - ms, 1_000_000);
    return Math.round(clock.now() / 1000) - 1000;
  };
  // Of two, of three, and also if the other one is the faster.
  for (const ahead of [10_000, 60_000, 10_000, 60_000, 60_000, 10_000, 60_000, 90_000, 60_000, 90_000]) assert.equal(ask(ahead, ahead === 10_000 ? 10 : 5), 11);
  assert.deepEqual([10_000, 90_000, 90_000, 90_000, 10_000].map((ahead) => ask(ahead)), [11, 11, 11, 91, 91]);
});

test('figures are written as people read them', () => {
  assert.deepEqual([0, 999, 7300, 151_000, 3_725_000, 90_000_000].map(words.duration), ['0 ms', '999 ms', '7.3 s', '2:31', '1:02:05', '1 d 1 h']);
  assert.deepEqual([null, 0.0941, 0.0004, 12.5].map(words.dollars), [null, '$0.094', '<$0.001', '$12.50']);
  assert.deepEqual([412, 2314, 38_200, 1_200_000].map(words.tokens), ['412', '2,314', '38.2k', '1.2M']);
});

test('a time of another day has its date', () => {
  const at = (...day) => new Date(2026, 10, ...day).getTime();
  assert.equal(words.clockTime(at(28, 0, 5), at(28, 23, 59)), '00:05');
  assert.equal(words.clockTime(at(28, 23, 59), at(29, 0, 1)), '28 Nov, 23:59');
});

test('a condition of a rule is told in words, whatever stands in it', () => {
  const told = [
    { pointer: '/a', op: 'ge', value: 200 }, { pointer: '/a', op: 'in', value: ['x', 1] }, { pointer: '/a', op: 'in', value: 'x' }, { pointer: '/a', op: 'number', value: { min: 1 } },
    { op: 'in' }, null, 7,
  ].map(conditionText);
  assert.deepEqual(told.slice(0, 5), ['/a ≥ 200', '/a is one of x, 1', '/a is one of x', '/a ≥ 1', 'the arguments is one of ']);
  assert.ok(told.every((text) => typeof text === 'string'));
});

test('without a connection the time of the last observation is told, also in the past', () => {
  const [then, last] = [1_795_449_600_000, 1_795_453_200_000];
  const thread = { lastSeq: 142, view: { at: then }, lastView: { at: last } };
  assert.equal(asOf(thread), ` What you see is as of observation 142, ${words.clockTime(last)}.`);
  assert.notEqual(words.clockTime(then), words.clockTime(last));
  assert.equal(asOf({ lastSeq: 0, lastView: { at: null } }), '');
});

test('curl names the variable of the key, and quotes what is in the way', () => {
  assert.equal(asCurl('POST', '/threads/a', { x: "it's" }, 'http://h'), `curl -s -X POST 'http://h/threads/a' -H "Authorization: Bearer $PES_TOKEN" -H 'content-type: application/json' -d '{"x":"it'\\''s"}'`);
  assert.equal(basePath({ pathname: '/' }), '');
  assert.equal(basePath({ pathname: '/agents/' }), '/agents');
});

test('a refusal is an error with its code; a server that is away is one, too', async () => {
  const body = { code: 'already_resolved', title: 'Answered', detail: 'Somebody was quicker.', retryable: false };
  const answer = () => new Response(JSON.stringify(body), { status: 409, headers: { 'content-type': 'application/problem+json' } });
  const api = createApi({ base: '', fetch: async () => answer() });
  await assert.rejects(api.get('/x'), (problem) => problem instanceof Problem && problem.code === 'already_resolved');
  const away = createApi({ base: '', fetch: async () => { throw new TypeError('fetch failed'); } });
  await assert.rejects(away.get('/x'), ({ isUnreachable, retryable, message, detail }) => isUnreachable && retryable
    && message === 'The server does not answer.' && detail === null);
});

test('what may have been done is sent again under its key: a proxy gave up, or the answer broke off', async () => {
  const answers = {
    proxy: () => new Response('<h1>502 Bad Gateway</h1>', { status: 502, headers: { 'content-type': 'text/html' } }),
    broken: () => new Response(new ReadableStream({
      start(body) {
        body.enqueue(new TextEncoder().encode('{"runId"'));
        body.error(new TypeError('network error'));
      },
    }), { status: 202, headers: { 'content-type': 'application/json' } }),
    refused: () => new Response('no', { status: 403 }),
    ours: () => new Response('{"code": "internal", "retryable": false}', { status: 500, headers: { 'content-type': 'application/problem+json' } }),
  };
  const api = createApi({ base: '', fetch: async (path) => answers[path]() });
  const problemOf = (path) => api.post(path).then(() => null, (problem) => problem);
  for (const [path, retryable] of [['proxy', true], ['broken', true], ['refused', false], ['ours', false]]) {
    const problem = await problemOf(path);
    assert.ok(problem instanceof Problem, path);
    assert.equal(problem.retryable, retryable, path);
  }
});

/** A WebSocket that the test plays. */
function sockets() {
  const made = [];
  class Fake {
    constructor(url) {
      this.url = url;
      this.sent = [];
      this.closed = 0;
      made.push(this);
    }

    send(text) {
      this.sent.push(JSON.parse(text).op);
    }

    close() {
      this.closed += 1;
    }
  }
  return { made, Fake };
}

test('a socket that ends is opened again from the last observation; one that was too slow at once', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { made, Fake } = sockets();
  const held = [];
  let after = 0;
  const live = openLive({ url: (seq) => `ws://x?after=${seq}`, after: () => after, on: { frame() {}, held: (ms) => held.push(ms) }, sockets: Fake, target: null });
  made[0].onclose({ code: 1006 });
  t.mock.timers.tick(1000);
  made[1].onclose({ code: 1006 });
  t.mock.timers.tick(2000);
  assert.deepEqual(held, [1000, 2000]);
  after = 42;
  made[2].onopen();
  made[2].onmessage({ data: '{"event":"caught_up","data":{"seq":42}}' });
  made[2].onclose({ code: 1013 });
  assert.equal(made[3].url, 'ws://x?after=42');
  made[3].onopen();
  made[3].onmessage({ data: '{"event":"draining","data":{"retryInMs":250}}' });
  made[3].onclose({ code: 1012 });
  assert.equal(held.at(-1), 250);
  live.close();
});

/** A connection that the test plays, and whose clock it moves. */
function connection(t) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] });
  const { made, Fake } = sockets();
  const [held, agos, target] = [[], [], new EventTarget()];
  const on = { frame: () => {}, held: (ms, ago) => held.push(ms) && agos.push(ago) };
  const live = openLive({ url: () => 'ws://x', after: () => 0, on, sockets: Fake, target });
  t.after(() => live.close());
  return { live, made, held, agos, target, tick: (ms) => t.mock.timers.tick(ms) };
}

test('a connection that says nothing is asked, and is given up if it does not answer', (t) => {
  const { made, held, agos, tick } = connection(t);
  made[0].onopen();
  tick(39_000);
  made[0].onmessage({ data: '{"event":"caught_up","data":{"seq":1}}' });
  tick(40_000);
  assert.deepEqual(made[0].sent, ['ping'], 'once the twenty seconds after the last word have passed');
  made[0].onmessage({ data: '{"event":"pong","data":{"id":0}}' });
  tick(41_000);
  assert.deepEqual([made.length, made[0].sent.length], [1, 2]);
  tick(20_000);
  assert.deepEqual([held, agos, made[0].closed], [[1000], [41_000], 1]);
  tick(1000);
  assert.equal(made.length, 2);
  // An event that comes late is ignored.
  made[0].onmessage({ data: 'nothing' });
  made[0].onclose({ code: 1006 });
  // A connection that never opens is given up, too.
  tick(60_000);
  assert.deepEqual(held, [1000, 2000]);
});

test('a connection is lost as soon as the browser is offline', (t) => {
  const { made, held, agos, target, tick } = connection(t);
  made[0].onopen();
  tick(9000);
  target.dispatchEvent(new Event('offline'));
  assert.deepEqual([held, agos, made[0].closed], [[1000], [0], 1]);
  target.dispatchEvent(new Event('offline'));
  target.dispatchEvent(new Event('online'));
  assert.deepEqual([held, made.length], [[1000], 2]);
});

test('who comes back to the page learns within twenty seconds that the connection died', (t) => {
  const { made, held, target, tick } = connection(t);
  made[0].onopen();
  tick(19_000);
  target.dispatchEvent(new Event('focus'));
  assert.deepEqual(made[0].sent, ['ping']);
  tick(19_000);
  assert.deepEqual(held, []);
  tick(1000);
  assert.deepEqual(held, [1000]);
});

test('what is missing is read again when all is ready, once a second at most, and never after the end', async (t) => {
  const { live, made, tick } = connection(t);
  const turn = () => new Promise((done) => { setImmediate(done); });
  let ready;
  live.again(new Promise((resolve) => { ready = resolve; }));
  await turn();
  tick(10_000);
  assert.deepEqual([made.length, made[0].closed], [1, 1]);
  ready();
  await turn();
  tick(0);
  assert.equal(made.length, 2);
  for (let i = 0; i < 3; i++) live.again();
  await turn();
  tick(999);
  assert.equal(made.length, 2);
  tick(1);
  assert.equal(made.length, 3);
  live.again(new Promise((resolve) => { ready = resolve; }));
  live.close();
  live.again();
  ready();
  await turn();
  tick(60_000);
  assert.equal(made.length, 3);
});

test('each item of a thread in the rail has the shape of its state', () => {
  const items = { total: 8, done: 2, failed: 1, cancelled: 1, running: 2, waiting: 1 };
  assert.deepEqual(beadsOf(items, 1), ['completed', 'completed', 'failed', 'cancelled', 'ask', 'waiting', 'in_progress', 'pending']);
  // A question about the plan belongs to no item; an older server counts only completed and failed items.
  assert.deepEqual(beadsOf({ total: 2, done: 1, failed: 0 }, 1), ['completed', 'pending']);
});

test('a thread without a title is called by its query, else by its id', () => {
  const row = { threadId: 't1', title: 'A trip', lastRun: { query: 'Plan a trip' } };
  assert.deepEqual([row, { ...row, title: '' }, { threadId: 't1' }].map(titleOf), ['A trip', 'Plan a trip', 't1']);
});

test('a change of the plan has its author in the same words everywhere', () => {
  const texts = [
    { source: 'planner', by: 'kate' }, { source: 'agent', itemId: 'look' }, { source: 'agent', itemId: null }, { source: 'refinement', by: 'kate' },
    { source: 'refinement', by: null }, { source: 'user', by: null }, { source: 'user', by: 'kate' }, { source: 'copy', by: null }, { source: 'rewind', by: null },
  ].map(authorText);
  assert.deepEqual(texts, ['the planner', 'the model, in look', 'the model, in an item', 'kate', 'a message', 'a person', 'kate', 'the fork', 'going back']);
});

test('of a hundred and one drafts the one goes that was not changed for longest', () => {
  for (let i = 0; i < 100; i++) keep(`draft ${i}`, { text: `${i}` });
  keep('draft 0', { text: 'more' });
  keep('draft 100', { text: '100' });
  assert.deepEqual([keptAt('draft 0')?.text, keptAt('draft 1'), keptAt('draft 2')?.text, keptAt('draft 100')?.text], ['more', undefined, '2', '100']);
});
