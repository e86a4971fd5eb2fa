// What could not be read is said where it belongs, and read again.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connected, open, quit } from '../support/browser.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';

let server;
before(async () => {
  server = await Server.start();
  await server.run('dinner', 'Send the team an invitation to the dinner.');
});
after(async () => {
  await quit();
  await server?.stop();
});

test('a view that could not be read is read when the server is back', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  const page = await open(other, '#/usage');
  await at(page, 'no-usage').waitFor();
  await page.evaluate(() => { location.hash = '#/new'; });
  await at(page, 'query').waitFor();
  await other.kill();
  await connected(page, 'held');
  await page.evaluate(() => { location.hash = '#/usage'; });
  await at(page, 'failure').waitFor();
  await other.begin();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2000 }).catch(() => {});
  await at(page, 'no-usage').waitFor();
  await done(page);
});
