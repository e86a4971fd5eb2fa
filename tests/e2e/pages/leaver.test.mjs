// Who signs in where another person was sees nothing of that person.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { ADMIN, KEYS, bearer } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ env: KEYS });
await server.ask('POST', '/threads/mine/process', { query: INVITE }, { ...bearer(ADMIN), prefer: 'wait=60' });

/** A key made for a test, and its id. */
const makeKey = (name, scopes = ['read', 'run', 'admin']) => server.post('/keys', { name, scopes, tenant: 'default' }, bearer(ADMIN));

async function signIn(page, key) {
  await at(page, 'login').waitFor();
  await at(page, 'key').fill(key);
  await at(page, 'sign-in').click();
}

async function signedIn(key, hash) {
  const page = await open(server, hash);
  await signIn(page, key);
  return page;
}

test('who signs out leaves nothing in the page', async () => {
  const page = await signedIn(ADMIN, '#/t/mine');
  await at(page, 'question').waitFor();
  await page.evaluate(() => { window.isTheSame = true; });
  await page.keyboard.press('ControlOrMeta+k');
  await at(page, 'palette-field').fill('sign out');
  await page.keyboard.press('Enter');
  await at(page, 'login').waitFor();
  assert.equal(await page.evaluate(() => window.isTheSame), undefined);
  await done(page);
});

test('who leaves where the session has ended signs in, and nothing is left of it', async () => {
  const { key, keyId } = await makeKey('leaver');
  const page = await signedIn(key, '#/new');
  await at(page, 'query').fill('For my eyes only.');
  await page.evaluate(() => { location.hash = '#/policy'; });
  await page.locator('details.part').evaluate((part) => { part.open = true; });
  await at(page, 'rules-json').fill('[]  ');
  page.on('dialog', (dialog) => dialog.accept());
  await server.ask('DELETE', `/keys/${keyId}`, undefined, bearer(ADMIN));
  await at(page, 'login').waitFor();
  assert.equal(await at(page, 'session-over').count(), 0);
  await signIn(page, ADMIN);
  await at(page, 'policy').waitFor();
  await page.evaluate(() => { location.hash = '#/new'; });
  await at(page, 'query').waitFor();
  assert.equal(await at(page, 'query').inputValue(), '');
  await done(page);
});

test('who signs in sees no draft of the person before, though the server does not tell who it is', async () => {
  const { key, keyId } = await makeKey('drafter');
  const page = await signedIn(key, '#/new');
  await at(page, 'query').fill('For my eyes only.');
  await server.ask('DELETE', `/keys/${keyId}`, undefined, bearer(ADMIN));
  await at(page, 'login').waitFor();
  const unavailable = { status: 503, contentType: 'application/problem+json', json: { title: 'Not now', code: 'store_unavailable', retryable: true } };
  await page.route('**/whoami', (route) => route.fulfill(unavailable));
  await signIn(page, ADMIN);
  await at(page, 'query').waitFor();
  assert.equal(await at(page, 'query').inputValue(), '');
  await at(page, 'query').fill('Mine.');
  await page.unroute('**/whoami');
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await page.locator('.me', { hasText: 'root' }).waitFor();
  assert.equal(await at(page, 'query').inputValue(), 'Mine.');
  await done(page);
});

test('who signs in in another tab finds nothing of the person before in this one', async () => {
  const { key } = await makeKey('tabs');
  const page = await signedIn(key, '#/new');
  await at(page, 'query').fill('For my eyes only.');
  await page.locator('.me', { hasText: 'tabs' }).waitFor();
  const other = await page.context().newPage();
  await other.goto(`${server.url}/#/login?to=%23%2Fnew`);
  await signIn(other, ADMIN);
  await at(other, 'query').waitFor();
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await page.locator('.me', { hasText: 'root' }).waitFor();
  assert.equal(await at(page, 'query').inputValue(), '');
  await done(page);
});

test('who signs in in another tab and may list no threads finds nothing of the person before either', async () => {
  const page = await signedIn(ADMIN, '#/t/mine');
  await at(page, 'question').waitFor();
  const { key } = await makeKey('approver', ['approve']);
  const other = await page.context().newPage();
  await other.goto(`${server.url}/#/login`);
  await signIn(other, key);
  await other.locator('.me', { hasText: 'approver' }).waitFor();
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await page.locator('.me', { hasText: 'approver' }).waitFor();
  assert.equal(await at(page, 'question').count(), 0);
  await done(page);
});

test('who signs in in another tab is not asked about what the person before did not save', async () => {
  const { key } = await makeKey('editor');
  const page = await signedIn(key, '#/policy');
  await page.locator('details.part').evaluate((part) => { part.open = true; });
  // The browser asks only about a page that was used: keys are pressed.
  await at(page, 'rules-json').press('End');
  await at(page, 'rules-json').press('Space');
  await page.locator('.off-reason', { hasText: 'Try them on past calls first.' }).waitFor();
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    return dialog.dismiss();
  });
  const other = await page.context().newPage();
  await other.goto(`${server.url}/#/login`);
  await signIn(other, ADMIN);
  await other.locator('.me', { hasText: 'root' }).waitFor();
  const loaded = page.waitForEvent('domcontentloaded');
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await loaded;
  await page.locator('.me', { hasText: 'root' }).waitFor();
  assert.deepEqual(asked, []);
  await done(page);
});

test('who signs in as somebody else without a sign-out gets lists of their own', async () => {
  const { key } = await makeKey('stayer');
  const page = await signedIn(key, '#/new');
  await at(page, 'query').fill('For my eyes only.');
  // The address is written a little later than the page is shown.
  await page.waitForURL(/#\/new$/);
  await page.evaluate(() => { location.hash = '#/login?to=%23%2Fnew'; });
  await at(page, 'login').waitFor();
  const opened = page.waitForEvent('websocket');
  await signIn(page, ADMIN);
  assert.equal(new URL((await opened).url()).pathname, '/events');
  await at(page, 'query').waitFor();
  assert.equal(await at(page, 'query').inputValue(), '');
  await done(page);
});
