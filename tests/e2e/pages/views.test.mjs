// Every view, light and dark, wide and narrow: axe finds nothing serious, no script fails, the content policy blocks nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, serious, shot, showing } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'cases.toml' });
await server.run('dinner', DINNER);
await server.run('dinner', INVITE);
await server.run('failed', 'Fail at once.');
await server.run('changed', 'Change the plan on the way.');
await server.post('/threads/dinner/fork', { at: 40, threadId: 'other' });
const question = (await server.get('/suspensions')).items[0].suspensionId;

const VIEWS = {
  thread: '#/t/dinner', timeline: '#/t/dinner?part=time', list: '#/t/dinner/list?sel=tip&tab=item', changes: '#/t/changed/changes', forecast: '#/t/dinner/forecast', edit: '#/t/dinner/edit',
  replay: '#/t/dinner?at=40&tab=talk', item: '#/t/dinner?sel=send&tab=item', context: '#/t/dinner?row=78&tab=context', failure: '#/t/failed',
  questions: '#/questions', question: 'QUESTION', compare: '#/compare/dinner/other', usage: '#/usage', policy: '#/policy', system: '#/system', new: '#/new', unknown: '#/t/nobody',
};

/** Words of ours and figures that are wider than their place, and whatever makes the page wider than the screen. */
const cutOff = (page) => page.evaluate(() => {
  const found = document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
  for (const one of document.querySelectorAll('button, a.b, summary, .tag, .n, th, label, dt, .facts > *, .seg, .rule-ref')) {
    const { width, left, right } = one.getBoundingClientRect();
    if (width === 0 || getComputedStyle(one).display === 'inline' || one.closest('.clip')) continue;
    const isOut = !one.closest('.scrollx, .graph, .tape') && (left < -1 || right > innerWidth + 1);
    if (one.scrollWidth > one.clientWidth + 1 || isOut) found.push(`${one.tagName} ${one.className} “${one.textContent.slice(0, 40)}”`);
  }
  return found;
});

/** Whole words are broken only where one is wider than its column could be. */
const brokenNames = (page) => page.locator('.plan .mono').evaluateAll((all) => all.filter((one) => {
  const text = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = text.nextNode(); node; node = text.nextNode()) {
    for (const { index, 0: word } of node.data.matchAll(/[\w-]+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1 && !word.includes('-')) return true;
    }
  }
  return false;
}).map((one) => one.textContent));

test('figures of usage stand only below the choice that they were read for', async () => {
  const page = await open(server, '#/usage?by=run&from=2099-01-01');
  const usage = page.locator('[data-testid=usage]');
  await usage.getByText('since 2099-01-01').waitFor();
  const choices = [['#/usage?by=run&from=2001-01-01', 'Dearest runs'], ['#/usage?by=item&from=2001-01-01', 'Dearest items']];
  for (const [hash, heading] of choices) {
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route(/\/usage\?groupBy/, (route) => held.then(() => route.fallback()));
    await page.evaluate((to) => { location.hash = to; }, hash);
    await usage.locator('.loading').waitFor();
    assert.equal(await usage.locator('section, [data-testid=no-usage], [data-testid=totals]').count(), 0);
    release();
    await usage.getByText(heading).waitFor();
    await page.unroute(/\/usage\?groupBy/);
  }
  // The chart has not all days of two years.
  await page.evaluate(() => { location.hash = '#/usage?from=2001-01-01'; });
  await usage.locator('figcaption').getByText('per day of the last 62').waitFor();
  await page.context().close();
});

test('letters and words set wider, as some readers need them, make no page wider than the screen', async () => {
  for (const width of [1440, 900, 390]) {
    const page = await open(server, '#/t/dinner', { width });
    await painted(page, 5);
    await page.evaluate(() => {
      const wider = new CSSStyleSheet();
      wider.replaceSync('* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important }');
      document.adoptedStyleSheets = [wider];
    });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    await page.context().close();
  }
});

test('names of items and tools are not broken in the list of a plan', async () => {
  const page = await open(server, '#/t/dinner/list');
  await painted(page, 5);
  await page.locator('[data-item=send]').waitFor();
  assert.ok(await page.locator('.plan .mono').count() > 10);
  assert.deepEqual(await brokenNames(page), []);
  await page.context().close();
});

for (const [name, hash] of Object.entries(VIEWS)) {
  for (const look of [{ dark: false }, { dark: true }, { dark: false, width: 390, height: 844, hasTouch: true }]) {
    const what = `${name}, ${look.width ? 'narrow' : look.dark ? 'dark' : 'light'}`;
    test(what, async () => {
      const page = await open(server, hash === 'QUESTION' ? `#/questions/${question}` : hash, look);
      await page.waitForSelector('main, aside.only');
      if (hash.startsWith('#/t/') && name !== 'unknown') await (name === 'replay' ? showing(page, 40) : painted(page, 5));
      await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
      await shot(page, what.replace(', ', '-'));
      assert.deepEqual(await serious(page), []);
      assert.deepEqual(await cutOff(page), []);
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    });
  }
}

for (const dark of [false, true]) {
  test(`a dialog is no obstacle, ${dark ? 'dark' : 'light'}: keys, palette, raw observation, cancel`, () => dialogs(dark));
}

async function dialogs(dark) {
  const page = await open(server, '#/t/dinner', { dark });
  await painted(page, 5);
  for (const [key, name] of [['?', 'Keys'], ['Control+k', 'Find or do'], ['c', 'Cancel this run?']]) {
    await page.keyboard.press(key);
    await page.locator(`dialog[aria-label="${name}"]`).waitFor();
    await shot(page, `dialog-${name.replace(/\W+/g, '-')}${dark ? '-dark' : ''}`);
    assert.deepEqual(await serious(page), [], name);
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
  }
  await page.keyboard.press('j');
  await page.locator('[role=treeitem][aria-selected=true]').waitFor();
  await page.keyboard.press('r');
  await page.locator('dialog[aria-label^="Observation"]').waitFor();
  assert.deepEqual(await serious(page), []);
  assert.deepEqual(page.wrong, []);
}

test('a dialog takes the focus, keeps it, and gives it back', async () => {
  const page = await open(server, '#/t/dinner');
  await painted(page, 5);
  const focused = () => page.evaluate(() => ({ name: document.activeElement.dataset.testid ?? document.activeElement.dataset.node ?? null, isInside: document.activeElement.closest('dialog') !== null }));
  const cancel = page.locator('[data-testid=cancel]:visible');
  for (const leave of [() => page.keyboard.press('Escape'), () => page.getByRole('button', { name: 'Keep it running' }).click(), () => page.mouse.click(5, 5)]) {
    await cancel.focus();
    await page.keyboard.press('Enter');
    await page.locator('dialog').waitFor();
    for (let i = 0; i < 4; i++) {
      const { isInside } = await focused();
      const isOutside = await page.evaluate(() => document.activeElement !== document.body);
      assert.ok(isInside || !isOutside, 'Tab leads to nothing behind the dialog');
      await page.keyboard.press('Tab');
    }
    await leave();
    await page.locator('dialog').waitFor({ state: 'detached' });
    assert.deepEqual(await focused(), { name: 'cancel', isInside: false });
  }
  // The same when the keyboard opened it.
  await page.locator('[data-node=bill]').focus();
  await page.keyboard.press('?');
  await page.locator('dialog').waitFor();
  assert.equal((await focused()).isInside, true);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.deepEqual(await focused(), { name: 'bill', isInside: false });
  assert.deepEqual(page.wrong, []);
});

test('the Enter that confirms a candidate of an input method runs no command', async () => {
  const page = await open(server, '#/t/dinner');
  await painted(page, 5);
  await page.keyboard.press('Control+k');
  const field = page.locator('[data-testid=palette-field]');
  await field.fill('Usage');
  await field.dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true });
  assert.match(page.url(), /#\/t\/dinner$/);
  await field.press('Enter');
  await page.locator('[data-testid=usage]').waitFor();
  assert.deepEqual(page.wrong, []);
});

test('by keyboard alone: views, rows, items, the tape', async () => {
  const page = await open(server, '#/t/dinner');
  await painted(page, 5);
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  await page.keyboard.press('d');
  await page.locator('[data-testid=changes]').waitFor();
  await page.keyboard.press('g');
  await page.locator('[data-testid=graph] [data-node]').first().waitFor();
  await page.locator('[data-node=bill]').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.node), 'tip');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.node), 'date');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /sel=date/.test(location.hash) && /tab=item/.test(location.hash));
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.waitForFunction(() => /row=64/.test(location.hash));
  assert.match(page.url(), /[?&]sel=date&/);
  await page.keyboard.press('ArrowRight');
  await page.locator('[role=treeitem][aria-level="3"]').first().waitFor();
  await page.keyboard.press(',');
  await showing(page, 81);
  await page.keyboard.press('0');
  await showing(page, 82);
  assert.deepEqual(page.wrong, []);
});

test('from the first question to the answer without a pointer', async () => {
  const page = await open(server, '#/new');
  await page.locator('[data-testid=query]:focus').waitFor();
  await page.keyboard.type(INVITE);
  await page.keyboard.press('Control+Enter');
  await page.waitForFunction(() => location.hash.startsWith('#/t/'));
  await page.locator('[data-testid=question][data-state=open]').waitFor();
  await page.keyboard.press('Escape');
  // All buttons are reached by Tab alone, and every focused element is visible.
  let name = null;
  for (let i = 0; i < 120 && name !== 'approve'; i++) {
    await page.keyboard.press('Tab');
    const here = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return { name: document.activeElement.dataset.testid ?? null, isSeen: outlineStyle !== 'none' && outlineWidth !== '0px' };
    });
    assert.ok(here.isSeen, `the focus is not seen on ${here.name}`);
    name = here.name;
  }
  assert.equal(name, 'approve');
  await page.keyboard.press('Enter');
  assert.match(await page.locator('[data-testid=approve]').innerText(), /Press again/);
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-testid=status][data-status=success]');
  assert.deepEqual(page.wrong, []);
});

test('keys do nothing in fields, and can be switched off', async () => {
  const page = await open(server, '#/t/dinner');
  await painted(page, 5);
  await page.keyboard.press('/');
  await page.keyboard.type('ldg');
  assert.match(page.url(), /#\/t\/dinner$/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.locator('dialog input[type=checkbox]').uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('l');
  assert.match(page.url(), /#\/t\/dinner$/);
});
