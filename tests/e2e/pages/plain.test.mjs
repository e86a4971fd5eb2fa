// The page over plain HTTP, as in a network without certificates, where browsers offer fewer APIs.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, quit } from '../support/browser.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';

let server;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await quit();
  await server?.stop();
});

test('what is sent has its key, and what cannot be copied says so', async () => {
  const page = await open(server, '#/new');
  await page.addInitScript(() => {
    delete Crypto.prototype.randomUUID;
    Object.defineProperty(navigator, 'clipboard', { value: undefined });
  });
  await page.reload();
  await at(page, 'query').fill('Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.');
  const sent = page.waitForRequest('**/process');
  await at(page, 'start').click();
  assert.match((await sent).headers()['idempotency-key'], /^[0-9a-f]{32}$/);
  await page.waitForFunction(() => document.documentElement.dataset.page === 'thread');
  const copy = page.getByRole('button', { name: 'Copy as curl' }).first();
  await page.locator('.tl [data-seq]').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('r');
  await copy.click();
  await page.getByRole('button', { name: 'No clipboard: needs HTTPS' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('y');
  await page.waitForFunction(() => document.getElementById('said').textContent === 'No clipboard: needs HTTPS');
  await done(page);
});
