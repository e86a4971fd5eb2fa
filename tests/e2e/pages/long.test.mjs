// Two hundred reconnections, twenty thousand observations, two hours: the page's memory does not grow, and nothing is animated for
// people who asked for less motion.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, open, painted, showing } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { largeLog, tellLarge } from '../support/large.mjs';
import { serve } from '../support/setup.mjs';

const TOO_SLOW = 1013;

const server = await serve();
await server.run('dinner', DINNER);

test('two hours, two hundred reconnections and twenty thousand observations leave nothing behind', async () => {
  const log = largeLog(1000);
  assert.ok(log.length >= 20_000);
  const page = await open(server, '#/new');
  await page.clock.install();
  await page.reload();
  await tellLarge(page, log);
  await page.evaluate(() => { location.hash = '#/t/large/list'; });
  await showing(page, log.length);
  const began = await page.evaluate(() => Date.now());
  const heap = await heapOf(page);
  const before = await heap();
  assert.ok(before <= 60e6, `${before} bytes`);
  for (let i = 0; i < 200; i++) {
    const sockets = await page.evaluate(() => window.sockets);
    await page.evaluate((code) => window.cut(code), TOO_SLOW);
    await page.waitForFunction((had) => window.sockets > had, sockets);
    // Tokens come and go meanwhile, and thirty-six seconds pass: two hours in all.
    await page.evaluate(tellTokens, i);
    await page.clock.fastForward(36_000);
  }
  await connected(page, 'live');
  assert.ok(await page.evaluate((from) => Date.now() - from, began) >= 2 * 3600 * 1000);
  assert.equal(await page.evaluate(() => Number(document.documentElement.dataset.seq)), log.length);
  const later = await heap();
  assert.ok(later <= before * 1.1, `${before} bytes, then ${later}`);
  assert.deepEqual(page.wrong, []);
});

/** A stream of the thread that is told of by its tokens, and ends. */
function tellTokens(number) {
  const streamId = `s${number}`;
  for (let at = 0; at < 20; at++) {
    window.tell('token', { type: 'TOKEN', data: 'word ', tokenType: 'EXECUTION_LLM_RESPONSE', phase: 'execution', streamId, offset: at * 5, threadId: 'large', runId: 'run_large' });
  }
}

/** The heap after a forced collection, in bytes. */
async function heapOf(page) {
  const client = await page.context().newCDPSession(page);
  await client.send('HeapProfiler.enable');
  return async () => {
    await client.send('HeapProfiler.collectGarbage');
    return (await client.send('Runtime.getHeapUsage')).usedSize;
  };
}

test('clocks go on for hours without a word from the server, and stand in the past', async () => {
  await server.run('asks', INVITE);
  const page = await open(server, '#/new');
  // Responses without a Date header: the page has only its own clock.
  await page.addInitScript(() => {
    const { get } = Headers.prototype;
    Headers.prototype.get = function (name) {
      return name === 'date' ? null : get.call(this, name);
    };
  });
  await page.clock.install();
  await page.goto(`${server.url}/#/t/asks`);
  await page.reload();
  await painted(page, 10);
  await page.clock.fastForward(2 * 3600 * 1000);
  await page.waitForFunction(() => /^2:0\d:\d\d$/.test(document.querySelector('.g-node.ask .sub')?.textContent ?? ''));
  await page.evaluate(() => { location.hash = '#/t/asks?at=18'; });
  await showing(page, 18);
  assert.equal(await page.locator('.g-node [data-tick]').count(), 0);
});

test('nothing moves for whoever asked for that, and shapes carry all where colours are forced', async () => {
  const page = await open(server, '#/t/dinner', { reducedMotion: 'reduce', forcedColors: 'active' });
  await painted(page, 10);
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  for (const shape of await page.locator('svg.i[role=img]').all()) assert.ok(await shape.getAttribute('aria-label'));
  assert.ok(await page.locator('.g-node svg.i').count() >= 4);
  // The border of the chosen one can be seen, that of no other; and beads are filled.
  for (const [others, edge] of [['.nav a', 'borderBottomColor'], ['.th', 'borderLeftColor'], ['.tabs button', 'borderBottomColor']]) {
    await page.locator(others).first().waitFor();
    assert.deepEqual(await page.locator(others).evaluateAll((all, name) => all.filter((one) => getComputedStyle(one)[name] !== 'rgb(255, 255, 255)')
      .map((one) => one.matches('[aria-current], [aria-selected=true]')), edge), [true], others);
  }
  assert.notEqual(await page.locator('.beads .completed').first().evaluate((bead) => getComputedStyle(bead).backgroundColor), 'rgb(255, 255, 255)');
});
