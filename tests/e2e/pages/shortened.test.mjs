// A thread whose log was shortened after some days: the page shows what the server keeps of the time before.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { DINNER, MENU } from '../support/demo.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve();
await server.run('short', DINNER);
const minSeq = (await server.log('short')).at(-1).seq + 1;
await server.run('short', MENU);
const { lastSeq } = await server.get('/threads/short');
await server.run('other', DINNER);
await server.run('other', MENU);

/** The page of a server that kept the log from `minSeq` on. */
async function opened(hash) {
  const page = await open(server, '#/new');
  await page.addInitScript(({ first }) => {
    const Socket = window.WebSocket;
    window.sockets = 0;
    window.WebSocket = class extends Socket {
      constructor(address, protocols) {
        const url = new URL(address);
        const isShort = url.pathname === '/threads/short/events';
        const isBefore = isShort && Number(url.searchParams.get('after')) < first - 1;
        if (isBefore) url.searchParams.set('after', first - 1);
        super(url, protocols);
        if (isShort) window.sockets += 1;
        if (isBefore) this.addEventListener('open', () => this.onmessage({ data: JSON.stringify({ event: 'gap', data: { fromSeq: first } }) }));
      }
    };
  }, { first: minSeq });
  await page.route(/\/threads\/short\/state$/, async (route) => {
    const response = await route.fetch();
    return route.fulfill({ json: { ...await response.json(), minSeq } });
  });
  await page.route(/\/threads\/short\/events\?/, (route) => (
    Number(new URL(route.request().url()).searchParams.get('after')) < minSeq - 1 ? route.fulfill({ status: 410, json: { code: 'history_compacted' } }) : route.continue()));
  await page.goto(`${server.url}/${hash}`);
  await page.reload();
  return page;
}

test('the plan and the conversation of before are there, and the log is asked for once more', async () => {
  const page = await opened('#/t/short?tab=talk');
  await painted(page, lastSeq);
  await at(page, 'answer').nth(1).locator('.md').waitFor();
  const said = await page.locator('.msg').allInnerTexts();
  assert.match(said[0], new RegExp(DINNER.slice(0, 25)));
  assert.match(said[1], /Each guest pays 47\.60/);
  assert.equal((await at(page, 'message').allInnerTexts()).filter((text) => text.includes(MENU.slice(0, 25))).length, 1);
  assert.equal(await page.locator('[data-node]').count(), (await server.get('/threads/short/state')).todoList.length);
  assert.equal(await page.evaluate(() => window.sockets), 2);
  await done(page);
});

test('it is compared with what it is, not with what is left of its log', async () => {
  const page = await opened('#/compare/short/other');
  await at(page, 'differences').waitFor();
  assert.match(await at(page, 'differences').innerText(), /items? of 6/);
  assert.match(await at(page, 'side-a').innerText(), /Work out a team dinner/);
  assert.match(await at(page, 'side-a').locator('.bar').innerText(), new RegExp(`${minSeq} – ${lastSeq}`));
  assert.equal(await at(page, 'more').count(), 0);
  await done(page);
});

test('a log that is too long to be read whole is said to be so', async () => {
  const page = await opened('#/new');
  await page.route(/\/threads\/short\/events\?/, async (route) => {
    const response = await route.fetch();
    return route.fulfill({ json: { ...await response.json(), lastSeq: 30_000 } });
  });
  await page.evaluate(() => { location.hash = '#/compare/short/other'; });
  await at(page, 'more').waitFor();
  assert.match(await at(page, 'more').innerText(), new RegExp(`Read up to observation ${lastSeq} only`));
  await done(page);
});
