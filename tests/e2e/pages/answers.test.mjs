// An answer counts once, however many people, clicks and tabs send it, and it applies only to the question as it was shown.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { listen, serve } from '../support/setup.mjs';

let paid = 0;
const shop = await listen((asked, answer) => {
  asked.resume();
  paid += 1;
  answer.end('{}');
});
const server = await serve({ script: 'people.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.post('/http-tools', { name: 'refund', description: 'Pays.', class: 'irreversible', url: `${shop.url}/refund`, inputSchema: { type: 'object' } });

const over = (page) => page.waitForSelector('[data-testid=question][data-state=over]');

/** Holds the answers of these pages until `count` of them were sent; then all of them go on. */
async function together(pages, count) {
  let sent = 0;
  let release;
  const all = new Promise((resolve) => { release = resolve; });
  for (const page of pages) {
    await page.route('**/resume', async (route) => {
      sent += 1;
      if (sent === count) release();
      await all;
      await route.continue();
    });
  }
}

test('two tabs that approve at the same moment make one call, and each says who was first', async () => {
  await server.run('tabs', 'Pay the refund.');
  const pages = [await open(server, '#/t/tabs'), await open(server, '#/t/tabs')];
  for (const page of pages) await at(page, 'question').waitFor();
  await together(pages, 2);
  await Promise.all(pages.map((page) => at(page, 'approve').click()));
  await Promise.all(pages.map(over));
  const { seq } = await server.runEnded('tabs');
  assert.equal(paid, 1);
  assert.equal((await server.log('tabs')).filter(({ type }) => type === 'AGENT_RESUMED').length, 1);
  for (const page of pages) {
    assert.match(await at(page, 'verdict').innerText(), /accepted|approved this/);
    await painted(page, seq);
    await done(page);
  }
});

test('an answer that is on its way is sent once, however often it is pressed', async () => {
  await server.run('busy', INVITE);
  const page = await open(server, '#/t/busy');
  await at(page, 'reason').fill('Not now.');
  let sent = 0;
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route('**/resume', async (route) => {
    sent += 1;
    await held;
    await route.continue();
  });
  await at(page, 'reject').click();
  await page.waitForSelector('[data-testid=question][data-state=busy]');
  await page.locator('[data-testid=question] .q').click();
  for (const key of ['x', 'x', 'a', 'a', 'e']) await page.keyboard.press(key);
  // However the press is caused, even where the button's state is not checked.
  await at(page, 'reject').evaluate((button) => {
    button.disabled = false;
    button.click();
  });
  release();
  await over(page);
  await server.runEnded('busy');
  assert.equal(sent, 1);
  await done(page);
});

test('a reload while an answer is on its way shows what became of it', async () => {
  await server.run('reload', INVITE);
  const page = await open(server, '#/t/reload');
  await at(page, 'reason').fill('Not now.');
  const arrived = page.waitForRequest('**/resume');
  await page.route('**/resume', async (route) => {
    await route.fetch();
    // The server's response never arrives.
  });
  await at(page, 'reject').click();
  await arrived;
  const { seq } = await server.runEnded('reload');
  await page.unroute('**/resume');
  await page.reload();
  await painted(page, seq);
  await at(page, 'tab-ask').click();
  await at(page, 'asked-before').waitFor();
  assert.match(await at(page, 'asked-before').innerText(), /local rejected this[\s\S]*“Not now\.”/);
  assert.equal(await at(page, 'question').count(), 0);
  assert.equal((await server.log('reload')).filter(({ type }) => type === 'AGENT_RESUMED').length, 1);
  await done(page);
});

test('an answer that comes after the time is up says so', async () => {
  await server.ask('PUT', '/policy', { rules: [{ id: 'soon', thread: 'late', tool: 'demo_send_email', action: 'ask', expiresAfterMs: 4000, onExpiry: 'deny' }] });
  await server.startRun('late', INVITE);
  await server.until('late', ({ type }) => type === 'AGENT_SUSPENDED');
  const page = await open(server, '#/t/late');
  await at(page, 'reason').fill('Too late.');
  await page.route('**/resume', async (route) => {
    await server.until('late', ({ type }) => type === 'SUSPENSION_TIMEOUT');
    await route.continue();
  });
  const answered = page.waitForResponse('**/resume');
  await at(page, 'reject').click();
  assert.equal((await answered).status(), 410);
  await at(page, 'verdict').or(at(page, 'asked-before')).first().waitFor();
  assert.match(await page.locator('.side').innerText(), /Nobody answered in time/);
  assert.equal(await at(page, 'reject').count(), 0);
  await done(page);
});

test('a first press counts for three seconds, and for the arguments that were seen', async () => {
  await server.run('armed', INVITE);
  const page = await open(server, '#/new');
  await page.clock.install();
  await page.goto(`${server.url}/#/t/armed`);
  await at(page, 'approve').click();
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  await page.clock.runFor(3_100);
  await page.waitForFunction(() => !/Press again/.test(document.querySelector('[data-testid=approve]').textContent));
  await at(page, 'edit').click();
  await page.clock.runFor(100);
  await at(page, 'approve').click();
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  await page.locator('[data-field="/subject"] input').fill('Another subject');
  await page.clock.runFor(100);
  assert.match(await at(page, 'approve').innerText(), /Approve with/);
  assert.doesNotMatch(await at(page, 'approve').innerText(), /Press again/);
  assert.ok(await questionOf(server, 'armed'));
  await done(page);
});

test('a first press is forgotten when its question is left', async () => {
  await server.run('left', INVITE);
  const page = await open(server, '#/t/left');
  let sent = 0;
  await page.route('**/resume', (route) => {
    sent += 1;
    return route.continue();
  });
  const again = at(page, 'approve').getByText('Press again');
  await at(page, 'approve').click();
  await again.waitFor();
  await at(page, 'tab-talk').click();
  await at(page, 'question').waitFor({ state: 'detached' });
  await at(page, 'tab-ask').click();
  await at(page, 'question').waitFor();
  assert.equal(await again.count(), 0);
  await at(page, 'approve').click();
  await again.waitFor();
  assert.equal(sent, 0);
  await at(page, 'approve').click();
  await over(page);
  assert.equal(sent, 1);
  await done(page);
});

test('a look at the arguments of a call leaves the answer what was given', async () => {
  await server.run('looked', 'Ask for form.');
  const page = await open(server, '#/t/looked');
  await page.locator('[data-testid=question] summary').click();
  await at(page, 'show-json').click();
  await page.locator('pre.json').waitFor();
  await page.getByLabel('city').fill('Oulu');
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'answer').click();
  assert.deepEqual((await sent).postDataJSON().value, { city: 'Oulu' });
  await over(page);
  await done(page);
});

test('a refused answer says what is wrong, at its field or below', async () => {
  await server.run('wrong', 'Ask for form.');
  const page = await open(server, '#/t/wrong');
  await page.getByLabel('city').fill('Oulu');
  await page.getByLabel('floor').fill('3');
  const errors = [{ pointer: '/value/floor', detail: 'there are two floors' }, { pointer: '/value', detail: 'the street is missing' }];
  await page.route('**/resume', (route) => route.fulfill({ status: 422, contentType: 'application/problem+json',
    body: JSON.stringify({ title: 'The request is understood but not valid', status: 422, detail: 'See errors.', code: 'invalid', traceId: 'a', retryable: false, errors }) }));
  await at(page, 'answer').click();
  await at(page, 'answer-note').getByText('the street is missing').waitFor();
  assert.doesNotMatch(await at(page, 'answer-note').innerText(), /two floors/);
  assert.match(await page.locator('[data-field="/floor"]').innerText(), /there are two floors/);
  await done(page);
});

test('a choice that a browser would send rounded cannot be made', async () => {
  await server.run('account', 'Ask for an account.');
  const page = await open(server, '#/t/account');
  await at(page, 'answer-field').waitFor();
  assert.deepEqual([await page.getByLabel('main').isDisabled(), await page.getByLabel('other').isDisabled()], [true, false]);
  await page.getByLabel('other').check();
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'answer').click();
  assert.equal((await sent).postDataJSON().value, 7);
  await over(page);
  await done(page);
});

test('what was answered or changed is told with the question, in all its places', async () => {
  const ask = async (thread, query, answer) => {
    await server.run(thread, query);
    const { suspensionId, digest } = await questionOf(server, thread);
    await server.resume(thread, { suspensionId, ...answer(digest) });
  };
  await ask('given', 'Ask for number.', () => ({ value: 14 }));
  await ask('changed', 'Pay the refund.', (digest) => ({ approved: true, digest, modifiedArgs: { amountEur: 199 } }));
  const page = await open(server, '#/t/given?tab=ask');
  await at(page, 'asked-before').locator('[data-testid=given]').waitFor();
  assert.deepEqual(await at(page, 'given').allInnerTexts(), ['14']);
  await page.evaluate(() => { location.hash = '#/t/given?tab=talk'; });
  await at(page, 'talk').locator('[data-testid=given]').waitFor();
  assert.deepEqual(await at(page, 'given').allInnerTexts(), ['14']);
  const times = await at(page, 'talk').locator('time').evaluateAll((all) => all.map((one) => one.title));
  assert.ok(times.length === 4 && times.every((title) => /^\d+ \w+ 20\d\d, \d\d:\d\d:\d\d$/.test(title)), String(times));
  await page.evaluate(() => { location.hash = '#/t/changed?tab=talk'; });
  await at(page, 'talk').locator('[data-testid=diff]').waitFor();
  assert.match(await at(page, 'diff').innerText(), /"amountEur": 214\.5[\s\S]*"amountEur": 199/);
  // Where there is no log of the thread.
  const { items } = await server.get('/suspensions?status=all&limit=100');
  const show = (thread) => page.evaluate((to) => { location.hash = to; }, `#/questions/${items.find((one) => one.threadId === thread).suspensionId}?show=answered`);
  await show('given');
  await at(page, 'given').waitFor();
  assert.equal(await at(page, 'given').innerText(), '14');
  await show('changed');
  await at(page, 'question').locator('[data-testid=diff]').waitFor();
  await done(page);
});

test('an answer stands on its card as soon as the call has it', async () => {
  await server.run('card', 'Ask for text.');
  const page = await open(server, '#/t/card');
  await page.locator('[data-testid=question] textarea, [data-testid=question] input').first().fill('We meet at nine.');
  await at(page, 'answer').click();
  await at(page, 'question').locator('[data-testid=given]').waitFor();
  assert.equal(await at(page, 'given').innerText(), 'We meet at nine.');
  await done(page);
});
