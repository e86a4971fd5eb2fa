// Many questions: the chosen one is in sight, and answers are given without a pointer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'people.toml' });

const current = (page) => page.locator('.in[aria-current=true]');

/** Waits until the chosen row is whole in its list. */
const isSeen = (page, id) => page.waitForFunction((wants) => {
  const row = document.querySelector('.in[aria-current=true]');
  if (!row) return false;
  const list = document.querySelector('.inbox .list').getBoundingClientRect();
  const { top, bottom } = row.getBoundingClientRect();
  return row.dataset.id === wants && top > list.top - 1 && bottom < list.bottom + 1;
}, id);

test('the chosen one of many questions is in sight, however it was chosen, and tells its thread', async () => {
  const threads = Array.from({ length: 14 }, (_, i) => `many-${i}`);
  for (const one of threads) await server.run(one, INVITE);
  const page = await open(server, '#/questions', { height: 500 });
  await at(page, 'question-row').nth(13).waitFor();
  const ids = await at(page, 'question-row').evaluateAll((rows) => rows.map((row) => row.dataset.id));
  for (const id of ids.slice(1, 13)) {
    await page.keyboard.press('j');
    await isSeen(page, id);
  }
  const thread = (await server.get('/suspensions?limit=200')).items.find((one) => one.suspensionId === ids[12]).threadId;
  assert.match(await current(page).innerText(), new RegExp(`\\b${thread}\\b`));
  // Beside its message, the item and what the call would do.
  assert.match(await current(page).innerText(), /send Send the invitation to team@example\.com\s+· demo_send_email \{"body":"Dear all, we meet/);
  assert.match(await at(page, 'question').innerText(), /send Send the invitation to team@example\.com/);
  // The one after an answered one, and one of a link.
  await page.keyboard.type('aa');
  await isSeen(page, ids[13]);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), ids[13]);
  await page.goto(`${server.url}/#/questions/${ids[11]}`);
  await page.reload();
  await isSeen(page, ids[11]);
  await done(page);
});

for (const [kind, text, key] of [['number', '12', 'Enter'], ['text', 'Hello.', 'Control+Enter']]) {
  test(`an answer of the kind ${kind} is sent by ${key}, and the focus is not lost`, async () => {
    const thread = `key-${kind}`;
    await server.run(thread, `Ask for ${kind}.`);
    const { suspensionId } = await questionOf(server, thread);
    const page = await open(server, `#/t/${thread}`);
    const field = at(page, 'answer-field');
    await field.focus();
    await page.keyboard.press(key);
    assert.equal(await at(page, 'question').getAttribute('data-state'), 'open');
    await field.fill(text);
    const sent = page.waitForRequest('**/resume');
    await page.keyboard.press(key);
    const { suspensionId: answered, ...body } = (await sent).postDataJSON();
    assert.equal(answered, suspensionId);
    assert.ok(JSON.stringify(body).includes(JSON.stringify(kind === 'number' ? 12 : text)), JSON.stringify(body));
    await page.waitForFunction(() => document.activeElement.id === 'tab-ask');
    await server.runEnded(thread);
    await done(page);
  });
}

test('a question that is not there is said in a sentence', async () => {
  const page = await open(server, '#/questions/nobody');
  await page.getByText('This question is not open any more, or it is not for this key. Look at the answered ones', { exact: true }).waitFor();
  await done(page);
});
