// The page where browsers offer fewer APIs: over plain HTTP, as in a network without certificates, and with site data blocked.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../support/browser.mjs';
import { DINNER } from '../support/demo.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();

test('what is sent has its key, and what cannot be copied says so', async () => {
  const page = await open(server, '#/new');
  await page.addInitScript(() => {
    delete Crypto.prototype.randomUUID;
    Object.defineProperty(navigator, 'clipboard', { value: undefined });
  });
  await page.reload();
  await at(page, 'query').fill(DINNER);
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
  // What is said of a run that goes on would take its place.
  await page.waitForFunction(() => document.getElementById('said').textContent.startsWith('The run has ended'));
  await page.keyboard.press('y');
  await page.waitForFunction(() => document.getElementById('said').textContent === 'No clipboard: needs HTTPS');
  await done(page);
});

test('where site data is blocked the page is shown, and its choices hold until it is left', async () => {
  const page = await open(server, '#/new');
  await page.addInitScript(() => Object.defineProperty(window, 'localStorage', {
    get() {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    },
  }));
  await page.reload();
  await at(page, 'query').waitFor();
  await at(page, 'theme').click();
  await page.locator('html[data-theme=dark]').waitFor();
  await at(page, 'theme').click();
  await page.locator('html[data-theme=light]').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.locator('dialog input[type=checkbox]').uncheck();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.keyboard.press('Control+k');
  await page.locator('dialog[aria-label="Find or do"]').waitFor();
  assert.equal(await page.locator('dialog').count(), 1);
  await done(page);
});
