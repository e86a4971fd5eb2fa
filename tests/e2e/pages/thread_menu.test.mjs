// A thread is renamed and deleted from its head: by the keyboard, by who may; the list and the other tabs follow.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, serious, shot } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { ADMIN, bearer } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();
const RUNS = 'pes_test_runner_0123456789abcdef';
const READS = 'pes_test_reader_0123456789abcdef';
const guarded = await serve({ env: { PES_API_KEYS: `default/boss:admin+run+read:${ADMIN},default/runner:run+read:${RUNS},default/reader:read:${READS}` } });
const BOSS = bearer(ADMIN);

const row = (page, id) => at(page, 'threads').locator(`[data-thread=${id}]`);
const act = (page, name) => at(page, 'head').getByRole('button', { name });

test('a thread is renamed by the keyboard, and the list and the other tabs follow', async () => {
  await server.run('asks', INVITE);
  const { lastSeq } = await server.get('/threads/asks');
  const [page, other, list] = [await open(server, '#/t/asks'), await open(server, '#/t/asks'), await open(server, '#/new')];
  await Promise.all([painted(page, lastSeq), painted(other, lastSeq)]);
  const before = await page.locator('h1').innerText();
  await page.locator('.head summary').focus();
  for (const key of ['Enter', 'Tab', 'Enter']) await page.keyboard.press(key);
  const title = at(page, 'title');
  await title.waitFor();
  assert.equal(await title.inputValue(), before);
  assert.deepEqual(await serious(page), []);
  await shot(page, 'rename');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('   ');
  await page.keyboard.press('Enter');
  assert.equal(await title.evaluate((field) => field.validity.valid), false, 'a name has a letter');
  await page.keyboard.type('Dinner, by hand');
  await page.keyboard.press('Enter');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.matches('.head summary')), true);
  for (const one of [page, other]) await one.locator('h1', { hasText: 'Dinner, by hand' }).waitFor();
  for (const one of [page, other, list]) await row(one, 'asks').getByText('Dinner, by hand').waitFor();
  assert.equal((await server.get('/threads/asks')).title, 'Dinner, by hand');
  await page.waitForFunction(() => document.title.includes('Dinner, by hand'));
  await Promise.all([page, other, list].map(done));
});

test('a dialog stays when a text in it is marked by a drag that ends outside', async () => {
  await server.run('dragged', INVITE);
  const page = await open(server, '#/t/dragged');
  await page.locator('.head summary').click();
  await act(page, 'Rename').click();
  const title = at(page, 'title');
  await title.fill('Dinner');
  const { x, y, width, height } = await title.boundingBox();
  await page.mouse.move(x + width - 5, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(5, y + height / 2);
  await page.mouse.up();
  assert.equal(await title.evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd)), 'Dinner');
  assert.equal(await page.locator('dialog').count(), 1);
  await page.mouse.click(5, y + height / 2);
  await page.locator('dialog').waitFor({ state: 'detached' });
  await done(page);
});

test('a thread is deleted after its name was shown, and is gone in the list and the other tabs', async () => {
  await server.run('goes', INVITE);
  const { lastSeq, lastRun } = await server.get('/threads/goes');
  const [page, other, list] = [await open(server, '#/t/goes'), await open(server, '#/t/goes'), await open(server, '#/new')];
  await Promise.all([painted(page, lastSeq), painted(other, lastSeq), row(list, 'goes').waitFor()]);
  const ask = async () => {
    await page.locator('.head summary').click();
    await act(page, 'Delete').click();
    await page.locator('dialog').waitFor();
  };
  await ask();
  assert.match(await page.locator('dialog').innerText(), /Delete this thread\?\s+.+ goes\s+Its run is stopped\./);
  assert.deepEqual(await serious(page), []);
  await shot(page, 'delete');
  // A key that is pressed too fast deletes nothing.
  await page.keyboard.press('Enter');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.equal((await server.get('/threads/goes')).status, 'suspended');
  await ask();
  await at(page, 'thread-yes').click();
  await page.locator('html[data-page=new]').waitFor();
  for (const one of [page, list]) await row(one, 'goes').waitFor({ state: 'detached' });
  await at(other, 'asked-for').waitFor();
  await assert.rejects(server.get('/threads/goes'), { status: 404 });
  await assert.rejects(server.get(`/runs/${lastRun.runId}`), { status: 404 });
  await Promise.all([page, other, list].map(done));
});

test('who may not is told so: by the buttons, or by the answer', async () => {
  await guarded.post('/threads', { threadId: 'theirs' }, BOSS);
  const signedIn = async (key) => {
    const page = await open(guarded, '#/t/theirs');
    await at(page, 'key').fill(key);
    await at(page, 'sign-in').click();
    await page.locator('.head summary').click();
    return page;
  };
  const reader = await signedIn(READS);
  for (const name of ['Rename', 'Delete']) {
    assert.equal(await act(reader, name).isDisabled(), true);
    assert.match(await act(reader, name).getAttribute('title'), /use one with the scope run/);
  }
  await done(reader);
  const runner = await signedIn(RUNS);
  await act(runner, 'Delete').click();
  await at(runner, 'thread-yes').click();
  await runner.locator('dialog [role=alert]', { hasText: 'was created by `boss`' }).waitFor();
  assert.equal(await at(runner, 'thread-yes').isDisabled(), false);
  await done(runner);
  await guarded.get('/threads/theirs', BOSS);
});

test('the past is neither renamed nor deleted', async () => {
  await server.run('past', INVITE);
  const page = await open(server, '#/t/past?at=3');
  await painted(page, 3);
  await page.locator('.head summary').click();
  for (const name of ['Rename', 'Delete']) assert.match(await act(page, name).getAttribute('title'), /You look at the past/);
  await done(page);
});
