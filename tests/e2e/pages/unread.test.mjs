// What could not be read is said where it belongs, and read again.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, open } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();
await server.run('dinner', INVITE);

const unavailable = { status: 503, contentType: 'application/problem+json', json: { title: 'Not now', detail: 'The database is away.', code: 'unavailable', retryable: true } };

test('threads that cannot be listed are said in their place, and shown when they can be', async () => {
  const page = await open(server, '#/login');
  await at(page, 'login').waitFor();
  await page.route(/\/threads\?limit=200/, (route) => route.fulfill(unavailable));
  await page.goto('about:blank');
  await page.goto(`${server.url}/#/`);
  await at(page, 'failure').waitFor();
  assert.equal(await at(page, 'failure').getAttribute('data-code'), 'unavailable');
  assert.match(page.url(), /#\/$/);
  await page.unroute(/\/threads\?limit=200/);
  await at(page, 'head').waitFor();
  assert.match(page.url(), /#\/t\/dinner$/);
  await done(page);
});

test('the caller, the tools and the models are read again when they had no answer', async () => {
  const page = await open(server, '#/login');
  await at(page, 'login').waitFor();
  const asked = [];
  await page.route(/\/(whoami|models|tools\?*)$/, (route) => {
    const { pathname } = new URL(route.request().url());
    asked.push(pathname);
    return asked.filter((one) => one === pathname).length === 1 ? route.abort() : route.fallback();
  });
  await page.goto(`${server.url}/#/new`);
  await page.reload();
  await page.locator('.me').waitFor();
  await page.locator('.strip.demo').waitFor();
  assert.deepEqual([...new Set(asked)].sort(), ['/models', '/tools', '/whoami']);
  await done(page);
});

test('a plan that could not be read for editing is read again by itself', async () => {
  const page = await open(server, '#/new');
  await at(page, 'query').waitFor();
  let asked = 0;
  await page.route('**/threads/dinner/plan', (route) => {
    asked += 1;
    return asked === 1 ? route.abort() : route.fallback();
  });
  await page.evaluate(() => { location.hash = '#/t/dinner/edit'; });
  await at(page, 'edit-row').first().waitFor();
  assert.equal(asked, 2);
  await done(page);
});

test('a search that is refused says so, and one without a hit does not speak of no threads', async () => {
  const page = await open(server, '#/new');
  await page.locator('[data-thread=dinner]').waitFor();
  const field = page.getByLabel('Search threads');
  await field.fill('nowhere');
  await at(page, 'threads').getByText('No thread is like that.').waitFor();
  assert.equal(await at(page, 'search-refused').count(), 0);
  await page.route(/\/threads\?limit=200&q=/, (route) => route.fulfill(unavailable));
  await field.fill('dinner');
  await at(page, 'search-refused').getByText('The database is away.').waitFor();
  await page.locator('[data-thread=dinner]').waitFor();
  await field.fill('');
  await at(page, 'search-refused').waitFor({ state: 'detached' });
  await done(page);
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
  await other.launch();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2000 }).catch(() => {});
  await at(page, 'no-usage').waitFor();
  await done(page);
});
