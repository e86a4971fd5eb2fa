// Fields and questions do not move or change under a person who types or clicks.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'people.toml' });

const card = (page, id, state) => page.waitForSelector(`[data-testid=question][data-id="${id}"]${state ? `[data-state=${state}]` : ''}`);
const shownId = (page) => at(page, 'question').getAttribute('data-id');
const rejects = (thread, { suspensionId }, where = server) => where.resume(thread, { suspensionId, approved: false, reason: 'No.' });

/** Waits until the keys of the card act, which its buttons say. */
const hasKeys = (page) => page.waitForFunction(() => document.querySelector('[data-testid=approve] kbd')?.textContent === 'a a');
const isArmed = async (page) => /Press again/.test(await at(page, 'approve').innerText());

/** What is sent as an answer from now on, and does not arrive. */
async function answers(page) {
  const sent = [];
  await page.route('**/resume', (route) => {
    sent.push(route.request().postDataJSON());
    return route.abort();
  });
  return sent;
}

test('a text that grows long is typed to its end in the field in which it was begun', async () => {
  await server.run('grows', INVITE);
  const page = await open(server, '#/t/grows');
  await at(page, 'edit').click();
  const subject = page.locator('[data-field="/subject"]').locator('input, textarea');
  await subject.fill('');
  const text = 'All across: expect a fox, a cat and a pack of apt calves in a far cave, at half past six.';
  await page.keyboard.type(text);
  assert.equal(await subject.inputValue(), text);
  assert.equal(await page.locator('[data-field="/subject"] :focus').count(), 1);
  assert.doesNotMatch(await at(page, 'approve').innerText(), /Press again/);
  assert.equal(await page.locator('dialog').count(), 0);
  await done(page);
});

test('what is typed on where a field was is no command, until the person turns elsewhere', async () => {
  await server.run('taken', INVITE);
  const page = await open(server, '#/t/taken');
  const reason = at(page, 'reason');
  for (const take of [(field) => field.remove(), (field) => { field.disabled = true; }]) {
    for (const turn of [() => page.locator('[data-testid=question] .q').click(), () => page.keyboard.press('Tab'), () => at(page, 'show-json').focus()]) {
      await page.reload();
      await reason.focus();
      await page.keyboard.type('Let');
      await reason.evaluate(take);
      // A field that is disabled keeps the focus until the next painting, and gets no keys by then.
      await page.waitForFunction(() => document.activeElement === document.body);
      await page.keyboard.type('?');
      await turn();
      await page.keyboard.press('l');
      await page.locator('[data-testid=plan-list]').waitFor();
      assert.equal(await page.locator('dialog').count(), 0);
      await page.evaluate(() => { location.hash = '#/t/taken/graph'; });
      await page.locator('[data-testid=graph]').waitFor();
    }
  }
  await done(page);
});

test('what the person closes by a click takes no keys with it', async () => {
  await server.run('closed', INVITE);
  const page = await open(server, '#/t/closed');
  await at(page, 'question').waitFor();
  const leave = {
    '?': () => page.locator('dialog').getByRole('button', { name: 'Close' }).click(),
    'Control+k': () => page.locator('dialog .found-row').first().click(),
  };
  for (const [key, close] of Object.entries(leave)) {
    await page.keyboard.press(key);
    await page.locator('dialog').waitFor();
    await close();
    await page.locator('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('l');
    await page.locator('[data-testid=plan-list]').waitFor();
    await page.keyboard.press('g');
    await page.locator('[data-testid=graph]').waitFor();
  }
  await done(page);
});

/** A run that asks, where a key was pressed whose file of the page arrives only after `release`. */
async function loading(thread, file, key) {
  await server.run(thread, INVITE);
  const page = await open(server, `#/t/${thread}`);
  await at(page, 'question').waitFor();
  await hasKeys(page);
  const sent = [];
  page.on('request', (request) => request.method() !== 'GET' && sent.push(request.url()));
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  const asked = page.waitForRequest(`**/${file}`);
  await page.route(`**/${file}`, (route) => held.then(() => route.fallback()));
  await page.keyboard.press(key);
  await asked;
  return { page, sent, release };
}

test('what is typed for a dialog that is still being loaded is no command; Escape closes it', async () => {
  const { page, sent, release } = await loading('loading', 'palette.js', 'Control+k');
  await page.keyboard.type('pfcaxlaa?');
  assert.equal(await isArmed(page), false);
  await page.keyboard.press('Escape');
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  release();
  await page.keyboard.press('Control+k');
  await at(page, 'palette-field').waitFor();
  assert.equal(await at(page, 'needs-reason').count(), 0);
  assert.deepEqual(sent, []);
  await done(page);
});

test('what is typed while the confirmation of a cancel is being loaded is no command', async () => {
  const { page, sent, release } = await loading('asking', 'dialog.js', 'c');
  await page.keyboard.type('pfal');
  assert.equal(await isArmed(page), false);
  await page.keyboard.press('Escape');
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  release();
  await page.keyboard.press('c');
  await at(page, 'cancel-yes').waitFor();
  assert.deepEqual(sent, []);
  await done(page);
});

test('keys do nothing behind a dialog, also when nothing in it has the focus', async () => {
  await server.run('behind', INVITE);
  const page = await open(server, '#/t/behind');
  await at(page, 'question').waitFor();
  await hasKeys(page);
  const sent = [];
  page.on('request', (request) => request.method() !== 'GET' && sent.push(request.url()));
  const dialog = page.locator('dialog');
  await page.keyboard.press('j');
  for (const key of ['r', 'c']) {
    await page.keyboard.press(key);
    await dialog.locator('h1').waitFor();
    // As a click on its text does in some browsers.
    await page.evaluate(() => document.activeElement.blur());
    assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
    await page.keyboard.type('pfal');
    assert.equal(await isArmed(page), false);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  }
  assert.equal(await page.locator('[data-testid=plan-list]').count(), 0);
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  assert.deepEqual(sent, []);
  await done(page);
});

test('a dialog that could not be loaded takes no keys', async () => {
  const page = await open(server, '#/t/loading');
  await at(page, 'question').waitFor();
  const failed = page.waitForEvent('requestfailed');
  await page.route('**/palette.js', (route) => route.abort());
  await page.keyboard.press('Control+k');
  await failed;
  await page.waitForFunction(() => {
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'l', bubbles: true, cancelable: true }));
    return document.querySelector('[data-testid=plan-list]');
  });
  await done(page);
});

test('a key that is held forks and pauses once', async () => {
  await server.run('held', INVITE);
  const page = await open(server, '#/t/held');
  await at(page, 'question').waitFor();
  const sent = [];
  await page.route(/\/(fork|pause)$/, (route) => sent.push(new URL(route.request().url()).pathname));
  for (const key of ['f', 'p']) {
    for (let i = 0; i < 3; i++) await page.keyboard.down(key);
    await page.keyboard.up(key);
  }
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  assert.deepEqual(sent, ['/threads/held/fork', '/threads/held/pause']);
  await done(page);
});

test('what is paused is not offered to be paused again', async () => {
  await server.run('paused', INVITE);
  const page = await open(server, '#/t/paused');
  // The sums of the run's time grow with it.
  const sums = page.locator('.sums');
  await sums.getByText(/^of .* s: person .* s · model/).waitFor();
  const before = await sums.innerText();
  await page.waitForFunction((was) => document.querySelector('.sums').innerText !== was, before);
  await at(page, 'pause').first().click();
  await at(page, 'pause').first().waitFor({ state: 'detached' });
  assert.equal(await at(page, 'cancel').count(), 2);
  const { suspensionId } = await questionOf(server, 'paused', 'pause');
  await server.post('/threads/paused/resume', { suspensionId, approved: true });
  await at(page, 'pause').first().waitFor();
  await done(page);
});

test('a question of a thread that somebody else answers stays, and says so, until the person goes on', async () => {
  await server.run('both', 'Ask twice.');
  const page = await open(server, '#/t/both');
  await page.locator('.side').getByText('2 questions', { exact: true }).waitFor();
  const sent = await answers(page);
  const first = await questionOf(server, 'both', 'approval');
  assert.equal(await shownId(page), first.suspensionId);
  await at(page, 'reason').focus();
  await page.keyboard.type('No, ');
  await rejects('both', first);
  await card(page, first.suspensionId, 'over');
  assert.match(await at(page, 'verdict').innerText(), /rejected this/);
  await page.keyboard.type('a cat');
  await at(page, 'verdict').click();
  await page.keyboard.type('ax');
  await page.locator('.side').getByText('1 question', { exact: true }).waitFor();
  await page.keyboard.press('q');
  await card(page, (await questionOf(server, 'both', 'input')).suspensionId, 'open');
  assert.deepEqual(sent, []);
  await done(page);
});

test('among all questions the one that is shown stays, whatever comes before it or becomes of it', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  await other.run('calm', INVITE);
  const calm = await questionOf(other, 'calm');
  const page = await open(other, '#/questions');
  await card(page, calm.suspensionId, 'open');
  const sent = await answers(page);
  await other.ask('PUT', '/policy', { rules: [{ id: 'soon', thread: 'hasty', tool: 'demo_send_email', action: 'ask', expiresAfterMs: 3_600_000, onExpiry: 'deny' }] });
  await other.run('hasty', INVITE);
  const hasty = await questionOf(other, 'hasty');
  await page.waitForFunction((id) => document.querySelector('[data-testid=question-row]').dataset.id === id, hasty.suspensionId);
  assert.equal(await shownId(page), calm.suspensionId);
  await rejects('calm', calm, other);
  await card(page, calm.suspensionId, 'over');
  await page.locator('[data-testid=verdict]', { hasText: 'rejected this' }).waitFor();
  await page.keyboard.type('ax');
  await page.keyboard.press('q');
  await card(page, hasty.suspensionId, 'open');
  assert.deepEqual(sent, []);
  await page.keyboard.press('a');
  assert.equal(await isArmed(page), true);
  await done(page);
});

for (const [how, come] of [
  ['called by q', (page) => page.keyboard.press('q')], ['clicked', (page) => page.locator('[data-testid=question] .q').click()],
  ['focused', (page) => at(page, 'show-json').focus()],
]) {
  test(`keys do nothing with a question that appeared by itself until it is ${how}`, async () => {
    const thread = `comes-${how.replaceAll(' ', '-')}`;
    await server.run(thread, 'Answer at length.');
    const page = await open(server, `#/t/${thread}`);
    await painted(page, (await server.get(`/threads/${thread}`)).lastSeq);
    await server.run(thread, INVITE);
    await at(page, 'question').waitFor();
    assert.match(await at(page, 'approve').innerText(), /q a a/);
    await page.keyboard.type('ax');
    await come(page);
    await hasKeys(page);
    assert.equal(await isArmed(page), false);
    assert.equal(await at(page, 'needs-reason').count(), 0);
    await page.keyboard.press('a');
    assert.equal(await isArmed(page), true);
    await rejects(thread, await questionOf(server, thread));
    await done(page);
  });
}

test('keys do nothing with the question that opens after an answer until it is called', async () => {
  for (const thread of ['next-1', 'next-2']) await server.run(thread, INVITE);
  const [first, second] = [await questionOf(server, 'next-1'), await questionOf(server, 'next-2')];
  const page = await open(server, `#/questions/${first.suspensionId}`);
  await card(page, first.suspensionId, 'open');
  await page.keyboard.type('aa');
  await card(page, second.suspensionId, 'open');
  await page.keyboard.type('ax');
  await page.keyboard.press('q');
  await hasKeys(page);
  assert.equal(await isArmed(page), false);
  assert.equal(await shownId(page), second.suspensionId);
  await done(page);
});

for (const [end, threads, query] of [['the pointer was elsewhere', ['same'], 'Ask for yes three times.'], ['two seconds passed', ['here-1', 'here-2'], 'Ask for yes.']]) {
  test(`a second press at one place answers no other question ${threads.length === 1 ? 'of the thread' : 'of all'}, until ${end}`, async (t) => {
    const other = await Server.start({ script: 'people.toml' });
    t.after(() => other.stop());
    for (const thread of threads) await other.run(thread, query);
    const page = await open(other, threads.length === 1 ? `#/t/${threads[0]}` : '#/questions');
    // Two seconds pass when the test says so.
    await page.addInitScript(() => {
      const usual = setTimeout;
      globalThis.setTimeout = (act, ms, ...more) => (ms === 2_000 ? void (globalThis.pass = act) : usual(act, ms, ...more));
    });
    await page.reload();
    await at(page, 'yes').waitFor();
    const sent = [];
    page.on('request', (one) => one.url().endsWith('/resume') && sent.push(one.postDataJSON().suspensionId));
    const first = await shownId(page);
    const { x, y } = await at(page, 'yes').boundingBox();
    await page.mouse.click(x + 20, y + 10);
    await page.waitForFunction((id) => document.querySelector('[data-testid=question]').dataset.id !== id, first);
    const second = await shownId(page);
    const hint = page.getByRole('status').filter({ hasText: 'Another question: move away, or wait' });
    for (const [right, down] of [[0, 0], [1, 1]]) {
      await page.mouse.click(x + 20 + right, y + 10 + down);
      await hint.waitFor();
      assert.equal((await at(page, 'yes').innerText()).trim(), 'Yes');
    }
    await card(page, second, 'open');
    assert.deepEqual(sent, [first]);
    if (threads.length === 1) await page.mouse.move(x, y - 60);
    else await page.evaluate(() => globalThis.pass()).then(() => hint.waitFor({ state: 'detached' }));
    await page.mouse.click(x + 20, y + 10);
    await page.waitForFunction((id) => document.querySelector(`[data-testid=question][data-id="${id}"][data-state=open]`) === null, second);
    assert.deepEqual(sent, [first, second]);
    await done(page);
  });
}

test('the answered questions are read again when others are open, and only then', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  await other.run('swapped', INVITE);
  const row = await questionOf(other, 'swapped');
  const page = await open(other, '#/questions?show=answered');
  let opened;
  const socket = new Promise((resolve) => { opened = resolve; });
  await page.routeWebSocket(/\/events$/, (one) => {
    one.connectToServer();
    opened(one);
  });
  // The lists are read at once and when the socket is open.
  let reads = 0;
  const read = new Promise((done_) => {
    page.on('response', (one) => {
      if (/suspensions\?limit/.test(one.url())) reads += 1;
      if (reads === 2) done_();
    });
  });
  await page.reload();
  const tenant = await socket;
  const send = (data, event = 'suspension') => tenant.send(JSON.stringify({ event, data }));
  const painting = () => page.evaluate(() => new Promise((next) => { requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(next))); }));
  await read;
  await page.locator('.nav [data-testid=question-count]').waitFor();
  await painting();
  const again = page.waitForRequest(/suspensions\?status=all/);
  send({ ...row, status: 'resolved' });
  send({ ...row, suspensionId: 'sus_other' });
  await again;
  // The page may have drawn between the two, and then asks twice.
  await painting();
  // The end of a thread that asked nothing changes nothing.
  let more = 0;
  page.on('request', (one) => { more += /suspensions\?status=all/.test(one.url()); });
  send({ threadId: 'unknown' }, 'thread_deleted');
  await painting();
  const next = page.waitForRequest(/suspensions\?status=all/);
  send({ ...row, suspensionId: 'sus_third' });
  await next;
  assert.equal(more, 1);
  await done(page);
});

test('an answer that arrives late takes nobody away from what is looked at by then', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  for (const thread of ['one', 'two', 'three']) await other.run(thread, INVITE);
  const page = await open(other, '#/questions');
  await at(page, 'question-row').nth(2).waitFor();
  const ids = await at(page, 'question-row').evaluateAll((rows) => rows.map((row) => row.dataset.id));
  await card(page, ids[0], 'open');
  const held = [];
  await page.route('**/resume', (route) => held.push(route));
  const answered = page.waitForResponse('**/resume');
  await at(page, 'approve').click();
  await at(page, 'approve').click();
  await card(page, ids[0], 'busy');
  await at(page, 'question-row').nth(2).click();
  await card(page, ids[2], 'open');
  const told = page.waitForFunction(() => document.getElementById('said').textContent === 'Your answer was accepted.');
  await held[0].continue();
  await answered;
  await told;
  assert.equal(await shownId(page), ids[2]);
  assert.ok(page.url().endsWith(ids[2]));
  await done(page);
});
