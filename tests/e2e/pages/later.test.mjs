// A browser loads only what it shows: other views are loaded when first shown.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connected, open, painted, seqOf } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();
await server.run('dinner', DINNER);

/** The files of the page that were asked for from now on. */
function asked(page) {
  const files = [];
  page.on('request', (request) => {
    const [, file] = request.url().split('/console/');
    if (file) files.push(file);
  });
  return files;
}

test('a thread is opened without what it does not show', async () => {
  const page = await open(server, '#/login');
  await page.locator('[data-testid=login]').waitFor();
  const files = asked(page);
  await page.goto(`${server.url}/#/t/dinner`);
  await page.reload();
  await painted(page, 10);
  for (const file of ['app.js', 'views/graph.js', 'views/talk.js', 'css/parts.css']) assert.ok(files.includes(file), file);
  const others = ['views/policy.js', 'views/edit.js', 'views/question/card.js', 'views/failure.js', 'css/pages.css'];
  assert.deepEqual(files.filter((file) => others.includes(file)), []);
  await page.evaluate(() => { location.hash = '#/policy'; });
  await page.locator('[data-testid=policy]').waitFor();
  assert.ok(files.includes('views/policy.js') && files.includes('css/pages.css'));
  assert.equal(await page.locator('.title').evaluate((title) => getComputedStyle(title).display), 'flex', 'its styles are there');
  assert.deepEqual(page.wrong, []);
});

test('what a question needs is requested before the log of its thread has been read', async () => {
  await server.run('asks', INVITE);
  const page = await open(server, '#/new');
  await page.locator('[data-testid=first-ask]').waitFor();
  // The server never sends the log.
  await page.routeWebSocket(/asks/, () => {});
  const requested = Promise.all(['tab', 'card', 'fields'].map((name) => page.waitForRequest(`**/question/${name}.js`)));
  await page.evaluate(() => { location.hash = '#/t/asks'; });
  await requested;
  assert.equal(await page.locator('[data-testid=head]').count(), 0);
  assert.deepEqual(page.wrong, []);
});

test('what is still on its way is not called painted', async () => {
  const page = await open(server, '#/new');
  await page.locator('[data-testid=first-ask]').waitFor();
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route('**/console/views/list.js', (route) => held.then(() => route.fallback()));
  await page.evaluate(() => { location.hash = '#/t/dinner/list'; });
  await page.locator('[data-testid=head]').waitFor();
  assert.equal(await seqOf(page), 0);
  release();
  await painted(page, 10);
  assert.equal(await page.locator('[data-testid=plan-list]').count(), 1);
});

test('what is not caught up yet is not called painted', async () => {
  const page = await open(server, '#/new');
  await page.locator('[data-testid=first-ask]').waitFor();
  let release;
  let hold;
  const held = new Promise((resolve) => { hold = resolve; });
  await page.routeWebSocket(/dinner/, (socket) => {
    socket.connectToServer().onMessage((frame) => {
      if (JSON.parse(frame).event !== 'caught_up') return socket.send(frame);
      release = () => socket.send(frame);
      return hold();
    });
  });
  await page.reload();
  await page.evaluate(() => { location.hash = '#/t/dinner'; });
  await held;
  const seqs = await page.evaluate(async () => {
    const seen = [];
    for (let i = 0; i < 10; i++) {
      dispatchEvent(new Event('resize'));
      await new Promise((painted) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(painted))));
      seen.push(document.documentElement.dataset.seq);
    }
    return seen;
  });
  assert.deepEqual(seqs, Array(10).fill('0'));
  release();
  await painted(page, 10);
  assert.equal(await page.locator('[data-testid=head]').count(), 1);
});

test('what could not be read is said, and the page can be loaded again', async () => {
  for (const [file, testid] of [['views/usage.js', 'usage'], ['css/pages.css', 'policy']]) {
    const page = await open(server, '#/t/dinner');
    await painted(page, 10);
    await page.route(`**/console/${file}`, (route) => route.abort());
    await page.evaluate((to) => { location.hash = `#/${to}`; }, testid);
    await page.locator('[data-testid=not-read]').waitFor();
    await page.unroute(`**/console/${file}`);
    await page.getByRole('button', { name: 'Load the page again' }).click();
    await page.locator(`[data-testid=${testid}]`).waitFor();
  }
});

test('without the server nothing is asked for; it comes as soon as there is one', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  await other.run('dinner', DINNER);
  const page = await open(other, '#/t/dinner');
  await painted(page, 10);
  await other.kill();
  await connected(page, 'held');
  await page.evaluate(() => { location.hash = '#/t/dinner/changes'; });
  await page.locator('[data-testid=not-yet]').waitFor();
  await other.launch();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2000 }).catch(() => {});
  await page.locator('[data-testid=changes]').waitFor();
  assert.deepEqual(page.wrong, []);
});

test('a server of another version is noticed once it answers again, and the page can be loaded again', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  await other.run('dinner', DINNER);
  const page = await open(other, '#/t/dinner');
  await painted(page, 10);
  await page.locator('.th').waitFor();
  const upgraded = page.locator('[data-testid=upgraded]');
  await page.route('**/version', (route) => route.fulfill({ json: { name: 'pes', version: '99.0.0' } }));
  await other.restart();
  await upgraded.waitFor();
  assert.match(await upgraded.innerText(), /^The server was upgraded\./);
  await upgraded.getByRole('button', { name: 'Load the page again' }).click();
  await upgraded.waitFor({ state: 'detached' });
  await painted(page, 10);
});

const CONSOLE = fileURLToPath(new URL('../../../console/', import.meta.url));

/** Whether a module is one: it is read, but not run. */
function isModule(lines) {
  try {
    Function(lines.join('\n').replace(/^import [^;(]*;/gm, '').replace(/^export /gm, ''));
    return true;
  } catch {
    return false;
  }
}

test('only comments on lines of their own are not sent', async () => {
  let lacking = 0;
  for (const file of readdirSync(CONSOLE, { recursive: true }).filter((one) => one.endsWith('.js') && !one.startsWith('vendor'))) {
    const lines = readFileSync(CONSOLE + file, 'utf8').split('\n');
    const sent = (await (await fetch(`${server.url}/console/${file}`)).text()).split('\n');
    assert.equal(sent.length, lines.length, file);
    assert.ok(isModule(sent), file);
    const others = [...lines.keys()].filter((i) => sent[i] !== lines[i]);
    for (const i of others) {
      assert.equal(sent[i], '', `${file}:${i + 1}`);
      // In a text this would be no mistake.
      assert.ok(!isModule(sent.with(i, '@')), `${file}:${i + 1} is no comment`);
    }
    lacking += others.length;
  }
  assert.ok(lacking > 500, `${lacking} lines`);
});
