// The frame around every view: bar, menus, rail, dock and keys, at every width and height.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, serious } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { ADMIN } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const NAME = 'n'.repeat(64);
const server = await serve();
const guarded = await serve({ env: { PES_API_KEYS: `default/${NAME}:read+run+approve+admin+operator:${ADMIN}` } });
await server.run('asks', INVITE);
const { lastSeq } = await server.get('/threads/asks');

const PHONE = { width: 390, height: 844, hasTouch: true };

async function thread(look, hash = '#/t/asks') {
  const page = await open(server, hash, look);
  await painted(page, lastSeq);
  return page;
}

async function signedIn(hash, look) {
  const page = await open(guarded, hash, look);
  await at(page, 'key').fill(ADMIN);
  await at(page, 'sign-in').click();
  await page.locator('.me summary').waitFor();
  return page;
}

const menus = (page) => page.locator('.menu[open]');
const isNoneOpen = (page) => menus(page).waitFor({ state: 'detached' });

test('a menu of a phone is closed by its button, a press elsewhere, Escape and a choice, and covers no button', async () => {
  const page = await thread(PHONE);
  const forks = [];
  page.on('request', (request) => request.url().endsWith('/fork') && forks.push(request.url()));
  const acts = page.locator('.head summary');
  await acts.tap();
  const [button, list] = await Promise.all([acts.boundingBox(), page.locator('.head .menu-list').boundingBox()]);
  assert.ok(list.y >= button.y + button.height, 'the list is below its button');
  await acts.tap();
  await isNoneOpen(page);
  await acts.tap();
  await page.locator('.card .q').tap();
  await isNoneOpen(page);
  await acts.tap();
  await page.keyboard.press('Escape');
  await isNoneOpen(page);
  await acts.tap();
  await page.locator('.top summary').tap();
  assert.equal(await menus(page).count(), 1);
  await page.keyboard.press('Escape');
  await isNoneOpen(page);
  await acts.tap();
  await page.locator('.head [data-testid=cancel]:visible').tap();
  await page.getByRole('button', { name: 'Keep it running' }).tap();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await isNoneOpen(page);
  assert.deepEqual(forks, []);
  await done(page);
});

for (const width of [861, 1000, 1280]) {
  test(`the bar has place for all at ${width}, however long the name of the key is`, async () => {
    const page = await signedIn('#/new', { width });
    const { left, right } = await page.getByRole('button', { name: 'Keys' }).evaluate((one) => one.getBoundingClientRect().toJSON());
    assert.ok(left > 0 && right <= width, `${left} to ${right}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    assert.equal(await page.locator('.me .tag').getAttribute('title'), `${NAME} · read run approve admin operator`);
    await done(page);
  });
}

test('the bars of plan and timeline have place at 861', async () => {
  const page = await thread({ width: 861 });
  assert.deepEqual(await page.locator('.bar').evaluateAll((bars) => bars.filter((bar) => bar.scrollWidth > bar.clientWidth).map((bar) => bar.textContent)), []);
  assert.ok(await at(page, 'plan-version').evaluate((one) => one.scrollWidth <= one.clientWidth));
  await done(page);
});

test('where the rail is narrow a thread is begun there, and / searches all', async () => {
  const page = await thread({ width: 1000 });
  await page.keyboard.press('/');
  await at(page, 'palette-field').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'New thread' }).click();
  await at(page, 'query').waitFor();
  await done(page);
});

test('the keys of the page work on each of its pages', async () => {
  for (const hash of ['#/questions', '#/usage', '#/policy', '#/system']) {
    const page = await open(server, hash);
    await page.locator('.title').waitFor();
    await page.keyboard.press('t');
    await page.locator('html[data-theme=dark]').waitFor();
    await page.keyboard.press('/');
    await at(page, 'palette-field').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('n');
    await at(page, 'query').waitFor();
    await done(page);
  }
});

test('a hint names the key that this computer has', async () => {
  const page = await open(server, '#/new');
  await at(page, 'query').waitFor();
  assert.equal(await page.locator('[data-testid=start] kbd').innerText(), 'Ctrl+↵');
  await done(page);
});

test('outside of a thread the dock leads to the last one and to all questions', async () => {
  const page = await thread(PHONE);
  await page.evaluate(() => { location.hash = '#/usage'; });
  await at(page, 'usage').waitFor();
  const to = (name) => at(page, `dock-${name}`).getAttribute('href');
  assert.deepEqual(await Promise.all(['plan', 'time', 'talk', 'ask'].map(to)), ['#/t/asks?part=plan', '#/t/asks?part=time', '#/t/asks?tab=talk&part=talk', '#/questions']);
  await at(page, 'dock-ask').tap();
  await at(page, 'inbox').waitFor();
  assert.equal(await at(page, 'dock-ask').getAttribute('aria-current'), 'true');
  await at(page, 'dock-plan').tap();
  await page.locator('[data-show=plan]').waitFor();
  await done(page);
});

test('an item on a phone is not called the question', async () => {
  const page = await thread(PHONE, '#/t/asks?sel=send&tab=item');
  await page.locator('.side[data-tab=item]:visible').waitFor();
  assert.equal(await page.locator('.dock [aria-current=true]').count(), 0);
  await done(page);
});

for (const [name, size] of [['a phone on its side', { width: 844, height: 390 }], ['a page of twice the size', { width: 720, height: 450 }]]) {
  test(`${name} shows arguments and the conversation`, async () => {
    const page = await thread({ ...size, hasTouch: true });
    const bottom = (await page.locator('.dock').boundingBox()).y;
    for (const key of ['/to', '/subject']) {
      const box = await page.locator(`[data-field="${key}"]`).boundingBox();
      assert.ok(box.y + box.height <= bottom, key);
    }
    assert.equal(await at(page, 'tape').isVisible(), false);
    await at(page, 'dock-talk').tap();
    const talk = await at(page, 'talk').boundingBox();
    assert.ok(talk.height >= 100, `${talk.height} of the conversation`);
    await done(page);
  });
}

test('on a page of 900 pixels the name of a tool is whole', async () => {
  const page = await thread({ width: 900 });
  const label = page.locator('.tl-row[data-kind=call] .label');
  const [name, room] = await label.evaluate((one) => {
    const range = document.createRange();
    const text = document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode();
    range.setStart(text, 0);
    // With the space, in whose place “…” stands.
    range.setEnd(text, text.data.indexOf(' ') + 1);
    return [range.getBoundingClientRect().right, one.getBoundingClientRect().right];
  });
  assert.ok(name < room, `${name} of ${room}`);
  await done(page);
});

test('a page without the rail takes its place', async () => {
  const page = await open(server, '#/system');
  await at(page, 'system').waitFor();
  assert.equal((await page.locator('main').boundingBox()).x, 0);
  await done(page);
});

test('Tab leads first past the threads to the content', async () => {
  const page = await thread({});
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.ok(await page.evaluate(() => document.activeElement.closest('main') !== null));
  await done(page);
});

test('the shown thread is in sight in the rail', async () => {
  for (let i = 0; i < 30; i++) await server.post('/threads', { threadId: `many-${i}` });
  const page = await thread({});
  const row = page.locator('.th[data-thread=asks]');
  await row.waitFor();
  const isSeen = () => page.waitForFunction(() => {
    const { top, bottom } = document.querySelector('.th[aria-current=true]').getBoundingClientRect();
    return top >= 0 && bottom < innerHeight + 1;
  });
  await isSeen();
  await page.evaluate(() => { location.hash = '#/t/many-0'; });
  await page.locator('.th[data-thread=many-0][aria-current=true]').waitFor();
  await isSeen();
  await done(page);
});

test('threads beyond the list are shown by their status, by a search, and page by page', async () => {
  await server.run('partial', INVITE, { options: { budget: { maxLlmCalls: 1 } } });
  await server.post('/threads', { threadId: 'newest' });
  const page = await open(server, '#/new');
  await at(page, 'threads').locator('[data-thread=asks]').waitFor();
  assert.equal(await at(page, 'more-threads').count(), 0);
  // As if a page had one thread.
  await page.route(/\/threads\?limit=200/, async (route) => {
    const url = route.request().url();
    const { items } = await (await route.fetch({ url: url.replace(/&cursor=.*/, '') })).json();
    return route.fulfill({ json: url.includes('cursor') ? { items: items.slice(1) } : { items: items.slice(0, 1), nextCursor: 'rest' } });
  });
  await page.reload();
  const older = at(page, 'threads').locator('h3', { hasText: 'Older' });
  const asks = at(page, 'threads').locator('[data-thread=asks]');
  const show = (name) => page.getByRole('button', { name, exact: true }).click();
  await at(page, 'more-threads').waitFor();
  assert.deepEqual([await asks.count(), await older.count()], [0, 0]);
  // A thread that asks may be running too.
  const both = Promise.all(['suspended', 'running'].map((status) => page.waitForRequest((one) => one.url().endsWith(`&status=${status}`))));
  await show('Asks');
  await asks.waitFor();
  await both;
  // What was found for another filter says nothing about this one.
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(/status=failed/, (route) => released.then(() => route.fallback()));
  const asked = page.waitForRequest(/status=failed/);
  await show('Failed');
  await asked;
  const none = at(page, 'threads').getByText('No thread is like that.');
  assert.deepEqual([await asks.count(), await none.count()], [0, 0]);
  release();
  await at(page, 'threads').locator('[data-thread=partial]').waitFor();
  await show('All');
  await asks.waitFor({ state: 'detached' });
  await at(page, 'more-threads').click();
  await asks.waitFor();
  assert.deepEqual([await older.count(), await at(page, 'more-threads').count()], [1, 0]);
  await page.getByLabel('Search threads').fill('no such thread');
  await none.waitFor();
  await page.getByLabel('Search threads').fill('ask');
  await asks.waitFor();
  await page.keyboard.press('Control+k');
  await at(page, 'palette-field').fill('asks');
  await page.locator('dialog [data-thread=asks]').click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await at(page, 'question').waitFor();
  await done(page);
});

test('the rail says so if the search for older threads cannot be loaded', async () => {
  const page = await thread({});
  await page.route('**/palette.js', (route) => route.abort());
  await page.getByLabel('Search threads').fill('no thread at all');
  await at(page, 'threads').locator('[data-testid=not-read]').waitFor();
  await done(page);
});

test('who signs out by the name leaves no address to the next one', async () => {
  const page = await signedIn('#/usage');
  await at(page, 'usage').waitFor();
  await page.locator('.me summary').click();
  const loaded = page.waitForEvent('load');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await loaded;
  await at(page, 'login').waitFor();
  assert.equal(new URL(page.url()).hash, '#/login');
  await done(page);
});

test('on a phone the name is a sign that leads out', async () => {
  const page = await signedIn('#/new', PHONE);
  assert.equal(await page.getByText(NAME).isVisible(), false);
  assert.deepEqual(await serious(page), []);
  await page.locator('.me summary').tap();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await done(page);
});

test('a server without keys asks for none', async () => {
  const page = await open(server, '#/login');
  await page.getByRole('heading', { name: 'This server wants no key.' }).waitFor();
  await done(page);
});

test('what is not found is named, and leads back', async () => {
  for (const [hash, path] of [['#/t/nobody', '/threads/nobody'], ['#/compare/asks/no%20one', '/threads/no%20one']]) {
    const page = await open(server, hash);
    assert.ok((await at(page, 'asked-for').innerText()).startsWith(path));
    await page.getByRole('link', { name: 'Go to the threads' }).click();
    await page.locator('html[data-page=thread]').waitFor();
    await done(page);
  }
});

test('a sentence with a link in it is one sentence', async () => {
  const page = await open(guarded, '#/login?to=%23%2Fquestions');
  await at(page, 'key').fill(ADMIN);
  await at(page, 'sign-in').click();
  const line = page.locator('p.fact', { hasText: 'Nobody is asked anything' });
  await line.waitFor();
  assert.equal(await line.evaluate((one) => getComputedStyle(one).display), 'block');
  await done(page);
});

test('a thread is found by its id, and two of one title are told apart', async () => {
  await server.post('/threads/asks/fork', { threadId: 'asks-again' });
  const page = await thread({});
  await page.keyboard.press('Control+k');
  await at(page, 'palette-field').fill('asks-again');
  const found = page.locator('.found-row');
  await found.filter({ hasText: 'asks-again' }).waitFor();
  await at(page, 'palette-field').fill('compare asks-again');
  await page.waitForFunction(() => document.querySelectorAll('.found-row').length === 1);
  await page.keyboard.press('Enter');
  assert.match(await at(page, 'side-a').locator('.bar').innerText(), /\basks\b/);
  assert.match(await at(page, 'side-b').locator('.bar').innerText(), /asks-again, fork of asks at/);
  await done(page);
});
