// A run in WebKit, from its start to its past, and what other engines do otherwise there.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { pieces } from '../../../console/text.js';
import { DINNER, INVITE } from '../support/demo.mjs';
import { ADMIN, KEYS } from '../support/keys.mjs';
import { Server } from '../support/server.mjs';
import { WebKit } from '../support/webkit.mjs';

const server = await Server.start({ env: { PES_DEMO_PACE: '20' } });
const guarded = await Server.start({ env: KEYS });
const webkit = await WebKit.start();
after(async () => {
  await webkit.quit();
  await Promise.all([server.stop(), guarded.stop()]);
});

const status = (name) => webkit.see(`[data-testid=status][data-status=${name}]`);
const nothingWrong = async () => assert.deepEqual(await webkit.wrong(), []);

/** The thread that the page shows. */
const shown = () => webkit.run(() => decodeURIComponent(location.hash.split(/[/?]/)[2]));

test('a run is started, seen live, read to its answer, and looked at as it was', async () => {
  await webkit.open(`${server.url}/#/new`);
  await webkit.type('[data-testid=query]', DINNER);
  await webkit.click('[data-testid=start]');
  await webkit.see('[data-node]');
  await webkit.painted(10);
  await webkit.reload();
  await status('success');
  await webkit.see('[data-testid=answer]', 'Each guest pays 47.60.');
  const thread = await shown();
  await webkit.open(`${server.url}/#/t/${thread}?at=20`);
  await webkit.until(() => document.documentElement.dataset.seq === '20' && document.documentElement.dataset.conn === 'replay');
  await webkit.press('.');
  await webkit.until(() => document.documentElement.dataset.seq === '21');
  await webkit.press(' ');
  await webkit.until(() => document.documentElement.dataset.conn === 'live');
  await webkit.painted((await server.get(`/threads/${thread}`)).lastSeq);
  await nothingWrong();
});

test('changed arguments are approved by two presses, once', async () => {
  await server.run('asks', INVITE);
  await webkit.open(`${server.url}/#/t/asks`);
  await webkit.click('[data-testid=edit]');
  await webkit.type('[data-field="/subject"] :is(input, textarea)', '!');
  await webkit.see('[data-testid=approve]', 'Approve with 1 change');
  await webkit.click('[data-testid=approve]');
  await webkit.see('[data-testid=approve]', 'Press again');
  await webkit.click('[data-testid=approve]');
  await status('success');
  const log = await server.log('asks');
  assert.deepEqual(log.filter(({ type }) => type === 'AGENT_RESUMED').map(({ content }) => content.decision), ['modified']);
  await nothingWrong();
});

test('a server that is killed and started again: the page says so, and the run goes on', async () => {
  await webkit.open(`${server.url}/#/new`);
  await server.startRun('killed', DINNER);
  await webkit.run(() => { location.hash = '#/t/killed'; });
  await webkit.painted(2);
  await server.kill();
  await webkit.see('[data-testid=held]');
  await server.launch();
  await status('success');
  await nothingWrong();
});

test('the lines beside the list go from row to row', async () => {
  await server.run('listed', DINNER);
  await webkit.open(`${server.url}/#/t/listed/list`);
  await webkit.see('[data-testid=plan-list]');
  const heights = await webkit.run(() => [...document.querySelectorAll('tr[data-item]')].map((row) => [row, row.querySelector('svg')].map((one) => Math.round(one.getBoundingClientRect().height))));
  assert.equal(heights.length, 4);
  for (const [row, lines] of heights) assert.ok(lines > 40 && Math.abs(row - lines) <= 1, `${lines} of ${row}`);
  await nothingWrong();
});

test('who signs in with a key sees the page, and who signs out does not', async () => {
  await webkit.open(`${guarded.url}/#/usage`);
  await webkit.type('[data-testid=key]', ADMIN);
  await webkit.click('[data-testid=sign-in]');
  await webkit.see('[data-testid=usage]');
  await webkit.click('.me summary');
  await webkit.click('.me .menu-list button');
  await webkit.see('[data-testid=key]');
});

test('beside hidden characters each visible one is shown', async () => {
  const texts = ['\u{e0041}tag', 'a\u202e😀b', '\u202e\u{e0042}1', '👨\u200d👩\u200d👧', '👨\u200d\u200d💻', 'می\u200cخواهم', '\u202a\u202a\u202ab', '\u001b[31mred\u001b[0m', 'Z\u0301\u0301\u0301\u0301\u0301\u0301'];
  await webkit.open(`${server.url}/#/new`);
  const found = await webkit.runLater(async (all) => {
    const text = await import(`${location.origin}/console/text.js`);
    return all.map((one) => text.pieces(one));
  }, texts);
  assert.deepEqual(found, texts.map((text) => JSON.parse(JSON.stringify(pieces(text)))));
});
