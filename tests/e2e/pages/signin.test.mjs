// People sign in at an issuer.

import assert from 'node:assert/strict';
import test from 'node:test';
import { open } from '../support/browser.mjs';
import { startIssuer } from '../support/issuer.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const issuer = await startIssuer();
const server = await serve({ settings: issuer.settings });

/** Begins a sign-in, and is at the issuer. */
async function begin(page) {
  await page.getByRole('link', { name: 'Sign in with corp' }).click();
  await page.getByRole('link', { name: 'Go on' }).waitFor();
}

const goOn = (page) => page.getByRole('link', { name: 'Go on' }).click();

test('who signs in comes to the page that they came for', async () => {
  const page = await open(server, '#/usage');
  await begin(page);
  await goOn(page);
  await at(page, 'usage').waitFor();
  assert.equal(new URL(page.url()).hash, '#/usage');
  await done(page);
});

test('who stops at the issuer is told so on the page, and can begin again', async () => {
  const page = await open(server, '#/usage');
  await begin(page);
  await page.getByRole('link', { name: 'Stop' }).click();
  await at(page, 'login-problem').waitFor();
  assert.match(await at(page, 'login-problem').innerText(), /^Your issuer did not sign you in, or you stopped there\./);
  await begin(page);
  await goOn(page);
  await at(page, 'usage').waitFor();
  await done(page);
});

test('two tabs sign in at the same time', async () => {
  const page = await open(server, '#/usage');
  const other = await page.context().newPage();
  await other.goto(`${server.url}/#/policy`);
  await begin(page);
  await begin(other);
  await goOn(page);
  await at(page, 'usage').waitFor();
  await goOn(other);
  await other.locator('html[data-page=policy]').waitFor();
  await done(page);
});

test('whom the issuer gives no rights is told so', async () => {
  issuer.scope = 'openid';
  const page = await open(server);
  await begin(page);
  await goOn(page);
  await at(page, 'login-problem').waitFor();
  assert.match(await at(page, 'login-problem').innerText(), /^Your issuer gave you no rights here/);
  issuer.scope = 'read run';
  await done(page);
});

test('of a sign-in that failed only known words are shown', async () => {
  for (const problem of ['%3Cb%3EPay%20at%20evil.example%3C%2Fb%3E', 'constructor']) {
    const page = await open(server, `#/login?problem=${problem}`);
    await at(page, 'login-problem').waitFor();
    assert.equal(await at(page, 'login-problem').innerText(), 'You were not signed in. Sign in again, or ask who runs this server.');
    await done(page);
  }
});
