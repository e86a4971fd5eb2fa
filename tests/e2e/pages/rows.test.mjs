// Timeline rows with the same number, as a phase and its first stream, or the calls of one reply, are separate rows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const SAYS = `
[[reply]]
when = { query = "Count twice.", phase = "planning" }
json = { title = "Sums", intent = "Count", plan = "Count.", todoList = [{ id = "sums", description = "Count twice", stepType = "tool", requiredTools = ["calculator"] }] }

[[reply]]
when = { item = "sums", iteration = 1 }
calls = [{ tool = "calculator", arguments = { expression = "1 + 1" } }, { tool = "calculator", arguments = { expression = "2 + 2" } }, { tool = "calculator", arguments = { expression = "3 + 3" } }]

[[reply]]
when = { query = "Count twice." }
text = "Counted."
`;

const server = await serve({ says: SAYS });
await server.run('sums', 'Count twice.');

/** The selected row in words: its kind and what stands first in it. */
const selected = (page) => page.locator('.tl-row[aria-selected=true]').evaluateAll((rows) => rows.map((row) => `${row.dataset.kind} ${row.querySelector('.label').textContent.trim()}`));
const isSelected = (page, words) => page.waitForFunction((wants) => {
  const [row, ...more] = document.querySelectorAll('.tl-row[aria-selected=true]');
  return row && more.length === 0 && `${row.dataset.kind} ${row.querySelector('.label').textContent}`.includes(wants);
}, words);

async function opened() {
  const page = await open(server, '#/t/sums');
  await painted(page, (await server.get('/threads/sums')).lastSeq);
  for (const row of ['phase', 'item']) await page.locator(`.tl-row[data-kind=${row}]`).first().click();
  await page.locator('.tl-row[data-kind=call]').nth(2).waitFor();
  return page;
}

test('each of them is selected by a click, and opened from there', async () => {
  const page = await opened();
  const calls = page.locator('.tl-row[data-kind=call]');
  const numbers = new Set(await calls.evaluateAll((rows) => rows.map((row) => row.dataset.seq)));
  assert.equal(numbers.size, 1, 'the calls have one number');
  for (const [i, words] of ['1 + 1', '3 + 3', '2 + 2'].entries()) {
    await calls.filter({ hasText: words }).click();
    await isSelected(page, words);
    assert.equal(await page.locator('[role=tree]').getAttribute('aria-activedescendant'), await page.locator('.tl-row[aria-selected=true]').getAttribute('id'), `${i}`);
  }
  await done(page);
});

test('keys pass from each to the next, on and back', async () => {
  const page = await opened();
  const rows = await page.locator('.tl-row').count();
  await page.locator('.tl-row').first().click();
  await isSelected(page, 'run');
  const seen = [await selected(page)];
  const walk = async (key) => {
    const before = await page.locator('.tl-row[aria-selected=true]').getAttribute('id');
    await page.keyboard.press(key);
    await page.waitForFunction((id) => document.querySelector('.tl-row[aria-selected=true]').id !== id, before);
    return page.locator('.tl-row[aria-selected=true]').getAttribute('id');
  };
  for (let i = 1; i < rows; i++) assert.equal(await walk('j'), `row-${i}`);
  for (let i = rows - 2; i >= 0; i--) assert.equal(await walk('k'), `row-${i}`);
  assert.deepEqual([await selected(page)], seen);
  await done(page);
});

test('keys that come quicker than paintings pass all of them, too', async () => {
  const page = await opened();
  await page.locator('.tl-row').first().click();
  const rows = await page.locator('.tl-row').count();
  await page.keyboard.type('j'.repeat(rows - 1));
  await page.waitForFunction((id) => document.querySelector('.tl-row[aria-selected=true]')?.id === id, `row-${rows - 1}`);
  await done(page);
});

test('so they do while the run waits for a person, from no row on', async () => {
  await server.run('asks', INVITE);
  const page = await open(server, '#/t/asks');
  await painted(page, (await server.get('/threads/asks')).lastSeq);
  await page.locator('[data-testid=question]').waitFor();
  const rows = await page.locator('.tl-row[data-seq]').count();
  await page.keyboard.type('j'.repeat(rows));
  await page.waitForFunction((id) => document.querySelector('.tl-row[aria-selected=true]')?.id === id, `row-${rows - 1}`);
  await page.keyboard.type('k'.repeat(rows));
  await isSelected(page, 'run');
  await done(page);
});

/** Presses keys between two paintings. */
const press = (page, ...keys) => page.evaluate((all) => {
  for (const key of all) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}, keys);

test('a key acts on the row to which the one before it led, also before that is painted', async () => {
  const page = await opened();
  const forks = [];
  await page.route('**/fork', (route) => {
    forks.push(route.request().postDataJSON());
    return route.abort();
  });
  const seqOf = async (row) => Number(await row.getAttribute('data-seq'));
  const stream = page.locator('.tl-row[data-kind=stream]').nth(1);
  const first = await seqOf(stream);
  const second = await seqOf(page.locator('.tl-row[data-kind=call]').first());
  await stream.click();
  const length = await page.evaluate(() => history.length);
  await press(page, 'v', 'k', 'j');
  await page.waitForFunction((hash) => location.hash === hash, `#/t/sums?sel=sums&tab=context&row=${first}`);
  assert.equal(await page.evaluate(() => history.length), length + 1);
  await press(page, 'j', 'f');
  await page.waitForFunction((row) => new URLSearchParams(location.hash.split('?')[1]).get('row') === String(row), second);
  await page.locator('[data-testid=head] .wrong').waitFor();
  assert.deepEqual(forks, [{ at: second }]);
  await page.locator('[data-testid=timeline-log]').click();
  await page.locator('[data-testid=log]').waitFor();
  await press(page, 'j', 'r');
  await page.locator(`dialog[aria-label="Observation ${second + 1}"]`).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await press(page, 'k', 'k', 'Enter');
  await page.locator(`dialog[aria-label="Observation ${second - 1}"]`).waitFor();
  await done(page);
});

test('a link to a number selects the first row that has it, and another number another row', async () => {
  const page = await opened();
  const [call] = await page.locator('.tl-row[data-kind=call]').evaluateAll((all) => all.map((row) => row.dataset.seq));
  await page.locator('.tl-row[data-kind=call]', { hasText: '3 + 3' }).click();
  await isSelected(page, '3 + 3');
  await page.evaluate(() => { location.hash = '#/t/sums?row=1'; });
  await isSelected(page, 'run');
  await page.evaluate((seq) => { location.hash = `#/t/sums?row=${seq}`; }, call);
  await isSelected(page, '1 + 1');
  await done(page);
});
