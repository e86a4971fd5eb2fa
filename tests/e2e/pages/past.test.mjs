// In the past the page shows nothing that came later, in any view, tab or log, at any observation tried.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, open, painted, showing } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();
await server.run('past', DINNER);
await server.run('past', INVITE);
const { items } = await server.get('/suspensions');
await server.resume('past', { suspensionId: items[0].suspensionId, approved: true, digest: items[0].digest });
await server.ask('PATCH', '/threads/past', { title: 'Renamed since' }, { 'content-type': 'application/merge-patch+json' });
const log = await server.log('past');

/** Every number of the log that the page shows or leads to, but for the tape, whose scale is the whole log. */
const seqsOf = (page) => page.evaluate(() => {
  const outside = (one) => !one.closest('.tape') && one !== document.documentElement;
  const numbers = [...document.querySelectorAll('[data-seq]')].filter(outside).map((one) => Number(one.dataset.seq));
  for (const link of [...document.querySelectorAll('a[href^="#/t/past"]')].filter(outside)) {
    const query = new URLSearchParams(link.getAttribute('href').split('?')[1]);
    for (const name of ['at', 'row']) if (query.has(name)) numbers.push(Number(query.get(name)));
  }
  for (const one of document.querySelectorAll('.seqlink, .tl-row .seq')) if (/^#?\d+$/.test(one.textContent.trim())) numbers.push(Number(one.textContent.replace('#', '')));
  return numbers;
});

const VIEWS = ['graph', 'list', 'changes', 'forecast'];
const TABS = ['ask', 'talk', 'item', 'context'];

test('no view and no tab shows a number beyond the one that is replayed', async () => {
  const page = await open(server, '#/t/past?at=3');
  const changed = log.find(({ type, content }) => type === 'PLAN_UPDATE' && content.planVersion === 2).seq;
  const asked = log.find(({ type }) => type === 'AGENT_SUSPENDED').seq;
  const last = log.at(-1).seq;
  let most = 0;
  for (const seq of [3, changed - 1, changed, asked - 1, asked, last - 1]) {
    for (const [i, view] of VIEWS.entries()) {
      await page.evaluate((to) => { location.hash = to; }, `#/t/past/${view}?at=${seq}&tab=${TABS[i]}`);
      await showing(page, seq);
      await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
      const numbers = await seqsOf(page);
      most = Math.max(most, ...numbers);
      assert.deepEqual(numbers.filter((one) => one > seq), [], `${view}, ${TABS[i]} at ${seq}`);
    }
  }
  assert.equal(most, last - 1, 'numbers were found');
  await done(page);
});

test('the log and the words of the past end where it does', async () => {
  const asked = log.find(({ type }) => type === 'AGENT_SUSPENDED').seq;
  const page = await open(server, `#/t/past/graph?at=${asked - 1}&tab=talk`);
  await showing(page, asked - 1);
  await at(page, 'timeline-log').click();
  await page.locator('.log-row').first().waitFor();
  await page.evaluate(() => document.querySelector('.log-row').closest('.scroll').scrollBy(0, 1e6));
  await page.locator(`.log-row[data-seq="${asked - 1}"]`).waitFor();
  const rows = await page.locator('.log-row').evaluateAll((all) => all.map((one) => Number(one.dataset.seq)));
  assert.equal(Math.max(...rows), asked - 1);
  const text = await page.locator('main').innerText();
  // The question, its answer and the message came later; earlier messages are shown.
  assert.match(text, /Each guest pays 47\.60/);
  assert.doesNotMatch(text, /Send the e-mail|was written, approved and handed over|approved by|Renamed since/);
  assert.doesNotMatch(await page.title(), /Renamed since/);
  assert.equal(await page.locator('[data-status=ask]').count(), 0);
  await done(page);
});

test('an address that names what came later shows none of it', async () => {
  const asked = log.find(({ type }) => type === 'AGENT_SUSPENDED').seq;
  const { runId } = log.at(-1);
  const page = await open(server, '#/t/past?at=3');
  await showing(page, 3);
  for (const [what, hash] of Object.entries({
    row: `at=3&row=${asked}&tab=context`, item: 'at=3&sel=send&tab=item', run: `at=3&run=${runId}&tab=talk`, question: `at=3&row=${asked}&tab=ask`,
  })) {
    await page.evaluate((to) => { location.hash = to; }, `#/t/past?${hash}`);
    await page.waitForFunction((to) => location.hash.endsWith(to), hash);
    await showing(page, 3);
    await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
    await page.keyboard.press('r');
    const dialog = page.locator('dialog[aria-label^="Observation"]');
    const text = (await dialog.count()) ? await dialog.innerText() : '';
    const main = await page.locator('main').innerText();
    assert.doesNotMatch(text + main, /demo_send_email|invitation|approved/i, what);
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('dialog'));
    await page.evaluate(() => { location.hash = '#/t/past?at=3'; });
    await showing(page, 3);
  }
  await done(page);
});

test('a thread that is renamed is called so everywhere at once', async () => {
  await server.run('named', DINNER);
  const page = await open(server, '#/t/named');
  await at(page, 'head').waitFor();
  await server.ask('PATCH', '/threads/named', { title: 'A dinner' }, { 'content-type': 'application/merge-patch+json' });
  await page.locator('h1', { hasText: 'A dinner' }).waitFor();
  await page.waitForFunction(() => document.title.includes('A dinner'));
  await page.locator('[data-thread=named]', { hasText: 'A dinner' }).waitFor();
  await done(page);
});

test('who looks at the last observation stays with what follows it', async () => {
  const live = () => page.waitForFunction(() => location.hash.startsWith('#/t/last') && !location.hash.includes('at='));
  await server.run('last', INVITE);
  const { lastSeq } = await server.get('/threads/last');
  const page = await open(server, `#/t/last?at=${lastSeq}&tab=talk`);
  await showing(page, lastSeq);
  await live();
  const { items } = await server.get('/suspensions');
  await server.resume('last', { suspensionId: items.find(({ threadId }) => threadId === 'last').suspensionId, approved: true });
  const { seq } = await server.runEnded('last');
  await painted(page, seq);
  await connected(page, 'live');
  // The same for a link on the page.
  await page.evaluate((to) => { location.hash = to; }, `#/t/last?at=${seq}`);
  await live();
  await server.run('last', INVITE);
  await painted(page, seq + 1);
  await connected(page, 'live');
  await done(page);
});

test('an observation that is looked at is gone where the page goes back to before it', async () => {
  const page = await open(server, '#/t/past?at=3');
  await showing(page, 3);
  await page.evaluate(() => { location.hash = '#/t/past'; });
  await showing(page, log.at(-1).seq);
  await at(page, 'timeline-log').click();
  await page.locator('.log-row button', { hasText: 'PLAN_UPDATE' }).first().click();
  await page.locator('dialog[aria-label^="Observation"]').waitFor();
  await page.goBack();
  await showing(page, 3);
  await page.locator('dialog').waitFor({ state: 'detached' });
  await done(page);
});
