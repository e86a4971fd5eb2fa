// What stands under the hand of a person who types or presses stays there: fields.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, quit } from '../support/browser.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';

const INVITE = 'Send the team an invitation to the dinner.';

let server;
before(async () => {
  server = await Server.start({ script: 'people.toml' });
});
after(async () => {
  await quit();
  await server?.stop();
});

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
