// A click does only what it was meant for, and to the run that it was meant for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, seqOf } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { ADMIN, KEYS } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'cases.toml' });
const guarded = await serve({ env: KEYS });

/** The runs of a thread, the oldest first. */
const runsOf = async (thread) => (await server.get(`/threads/${thread}/runs`)).items.sort((a, b) => a.createdAt - b.createdAt);

/** A page of a thread whose run asks a person. */
async function asking(thread) {
  await server.run(thread, INVITE);
  const page = await open(server, `#/t/${thread}`);
  await at(page, 'question').waitFor();
  return page;
}

/** Presses Cancel in the dialog; the address that it was sent to. */
async function cancels(page) {
  const sent = page.waitForRequest(/\/cancel$/);
  await at(page, 'cancel-yes').click();
  return new URL((await sent).url()).pathname;
}

test('a run is asked for again with the options that it had', async () => {
  const options = { budget: { maxTokens: 50_000 }, executionConfig: { planReview: 'always', maxIterations: 3 }, llmParams: { temperature: 0.5 } };
  await server.run('options', 'Fail at once.', { options });
  const page = await open(server, '#/t/options');
  await at(page, 'failure').getByText('With the options of that run').waitFor();
  const seq = await seqOf(page);
  await at(page, 'run-again').click();
  await server.runEnded('options', seq);
  const [first, second] = await runsOf('options');
  assert.deepEqual(second.options, first.options);
  assert.equal(second.options.executionConfig.planReview, 'always');
  await done(page);
});

test('a run that was refused is asked for anew, and one whose answer was lost as the same', async () => {
  await server.run('again', 'Fail at once.');
  const page = await open(server, '#/t/again');
  await at(page, 'run-again').waitFor();
  const seq = await seqOf(page);
  const keys = [];
  const refusals = [429, 504, 429];
  await page.route('**/process', (route) => {
    const status = refusals[keys.length];
    keys.push(route.request().headers()['idempotency-key']);
    const body = JSON.stringify({ title: 'No', status, detail: `Refusal ${keys.length}.`, code: 'any', traceId: 'a', retryable: true });
    return status ? route.fulfill({ status, contentType: 'application/problem+json', body }) : route.continue();
  });
  for (const number of [1, 2, 3]) {
    await at(page, 'run-again').click();
    await page.getByText(`Refusal ${number}.`).waitFor();
  }
  await at(page, 'run-again').click();
  await server.runEnded('again', seq);
  const [first, second] = keys;
  assert.notEqual(first, second);
  assert.deepEqual(keys, [first, second, second, second]);
  await done(page);
});

test('a run is cancelled, and not answered as one before it was through a proxy that gave up', async () => {
  const page = await asking('proxied');
  let sent = 0;
  await page.route('**/cancel', async (route) => {
    sent += 1;
    if (sent > 1) return route.continue();
    // The request arrives; its response does not.
    await route.fetch();
    return route.fulfill({ status: 504, contentType: 'text/html', body: '<h1>Gateway Time-out</h1>' });
  });
  await page.keyboard.press('c');
  await cancels(page);
  await page.getByText('Gateway Time-out').waitFor();
  const { seq } = await server.runEnded('proxied');
  await server.run('proxied', INVITE);
  const { lastSeq } = await server.get('/threads/proxied');
  await painted(page, lastSeq);
  await page.keyboard.press('c');
  const [, second] = await runsOf('proxied');
  assert.equal(await cancels(page), `/runs/${second.runId}/cancel`);
  await server.runEnded('proxied', seq);
  assert.equal((await runsOf('proxied'))[1].status, 'cancelled');
  await done(page);
});

test('a run is cancelled alone: the one that is queued behind it begins', async () => {
  const page = await asking('queued');
  await server.startRun('queued', 'Fail at once.', { onBusy: 'enqueue' });
  const [first] = await runsOf('queued');
  await page.keyboard.press('c');
  assert.equal(await cancels(page), `/runs/${first.runId}/cancel`);
  await server.until('queued', ({ type, content }) => type === 'RUN_STARTED' && content.query === 'Fail at once.');
  await done(page);
});

test('a run that began while the dialog stood open is not the one that is cancelled', async () => {
  const page = await asking('changed');
  await page.keyboard.press('c');
  await at(page, 'cancel-yes').waitFor();
  await server.post('/threads/changed/cancel', {});
  await server.runEnded('changed');
  await server.run('changed', INVITE);
  await painted(page, (await server.get('/threads/changed')).lastSeq);
  const [first, second] = await runsOf('changed');
  const answered = page.waitForResponse(/\/cancel$/);
  assert.equal(await cancels(page), `/runs/${first.runId}/cancel`);
  await (await answered).finished();
  assert.equal((await server.get(`/runs/${second.runId}`)).status, 'suspended');
  await done(page);
});

test('rules that are typed while others are saved stay', async () => {
  const page = await open(server, '#/policy');
  await at(page, 'no-rules').waitFor();
  const rules = '[{"id": "first", "tool": "demo_*", "action": "ask"}]';
  await at(page, 'rules-json').fill(rules);
  await at(page, 'try-rules').click();
  await at(page, 'dry-run').waitFor();
  // What other rules would have decided is not known.
  await at(page, 'rules-json').fill('[]');
  await at(page, 'dry-run').waitFor({ state: 'detached' });
  await at(page, 'rules-json').fill(rules);
  await at(page, 'dry-run').waitFor();
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route('**/policy', async (route) => {
    if (route.request().method() === 'PUT') await released;
    await route.continue();
  });
  const sent = page.waitForRequest((one) => one.method() === 'PUT');
  await at(page, 'save-rules').click();
  await sent;
  await at(page, 'rules-json').fill('[]');
  release();
  await page.getByText('Version 1.').waitFor();
  assert.equal(await at(page, 'rules-json').inputValue(), '[]');
  await done(page);
});

test('on a narrow screen somebody signs out, and is told where that failed', async () => {
  const page = await open(guarded, '#/usage', { width: 400 });
  await at(page, 'key').fill(ADMIN);
  await at(page, 'sign-in').click();
  await at(page, 'usage').waitFor();
  await page.route('**/session', (route) => route.fulfill({ status: 503, json: { title: 'The store does not answer', code: 'store_unavailable' } }));
  const signOut = async () => {
    await page.locator('.me summary').click();
    await page.getByRole('button', { name: 'Sign out' }).click();
  };
  const told = page.waitForEvent('dialog').then(async (dialog) => {
    await dialog.accept();
    return dialog.message();
  });
  await signOut();
  assert.match(await told, /You are still signed in\. The store does not answer/);
  await page.unroute('**/session');
  await signOut();
  await at(page, 'login').waitFor();
  await done(page);
});
