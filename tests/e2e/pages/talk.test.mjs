// Messages to the agent: the first of a thread, those to a running run, and the answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, shot, showing } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'people.toml' });
const cases = await serve({ script: 'cases.toml' });

const busy = (route) => route.fulfill({ status: 429, contentType: 'application/problem+json',
  body: JSON.stringify({ title: 'Busy', status: 429, detail: 'Slow down.', code: 'too_many_requests', traceId: 'a', retryable: true }) });

const inThread = (page) => page.waitForFunction(() => location.hash.startsWith('#/t/') && Number(document.documentElement.dataset.seq) > 0);

test('two actions and half a minute lead from nothing to a plan that runs, and to its answer', async (t) => {
  const began = Date.now();
  // The usual speed: as slow as a person sees it.
  const empty = await Server.start({ env: { PES_DEMO_PACE: '20' } });
  t.after(() => empty.stop());
  // The first action: open the address that the server prints.
  const page = await open(empty, '');
  await at(page, 'first-ask').waitFor();
  assert.match(await at(page, 'first-ask').innerText(), /Ask for something that takes steps\.[\s\S]*the run goes on where it was/);
  // The second.
  await at(page, 'prompt').first().click();
  await page.locator('[data-node][data-status=in_progress]').first().waitFor();
  const planned = Date.now() - began;
  await at(page, 'answer').waitFor();
  const answered = Date.now() - began;
  t.diagnostic(`a plan runs after ${planned} ms, its answer is there after ${answered} ms`);
  assert.ok(answered < 30_000, `${answered} ms`);
  await done(page);
});

test('a plan is shown before it runs, if that is wanted; when it is refused the text stays, and no thread', async () => {
  const threads = async () => (await server.get('/threads?limit=200')).items.length;
  const before = await threads();
  const page = await open(server, '#/new');
  await page.route('**/process', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json',
    body: JSON.stringify({ title: 'Busy', status: 503, detail: 'The queue is full.', code: 'provider_saturated', traceId: 'a', retryable: true }) }));
  await at(page, 'query').fill(INVITE);
  await at(page, 'review').check();
  await at(page, 'start').click();
  await at(page, 'new-problem').waitFor();
  assert.equal(await at(page, 'query').inputValue(), INVITE);
  assert.equal(await threads(), before);
  await page.unroute('**/process');
  await at(page, 'start').click();
  await inThread(page);
  await page.waitForSelector('[data-kind=plan_review]');
  await done(page);
});

test('an answer is Markdown, its links lead to the web only, and its suggestions can be taken', async () => {
  await server.run('answer', 'Answer at length.');
  const page = await open(server, '#/t/answer?tab=talk');
  await at(page, 'answer').locator('.md').waitFor();
  await page.getByRole('button', { name: 'Use' }).last().waitFor();
  const links = await at(page, 'answer').locator('a[target=_blank]').evaluateAll((all) => all.map((one) => one.href));
  assert.deepEqual(links, ['https://example.com/page', 'https://example.com/p.png', 'https://example.com/terms']);
  assert.equal(await at(page, 'answer').locator('img').count(), 0);
  assert.match(await at(page, 'answer').innerText(), /a link\s*\(example\.com\)/);
  await page.getByRole('button', { name: 'Use' }).last().click();
  assert.equal(await at(page, 'message-field').inputValue(), '<b>not bold</b>');
  assert.notEqual(await page.title(), 'taken');
  await done(page);
});

/** Waits until the conversation is scrolled to a place: its end, or the beginning of its last answer. */
const scrolledTo = (page, place) => page.waitForFunction((wants) => {
  const box = document.querySelector('[data-testid=talk]');
  if (!box) return false;
  if (wants === 'end') return box.scrollTop > 0 && box.scrollHeight - box.scrollTop - box.clientHeight < 2;
  const answer = [...box.querySelectorAll('[data-testid=answer]')].at(-1);
  return answer?.querySelector('.md') && Math.abs(answer.getBoundingClientRect().top - box.getBoundingClientRect().top) < 2;
}, place);

test('a conversation opens at its last answer, and follows what is written while the reader is at its end', async () => {
  await server.run('followed', 'Answer at length.');
  const page = await open(server, '#/t/followed?tab=talk', { height: 560 });
  await scrolledTo(page, 'answer');
  await at(page, 'talk').evaluate((box) => { box.scrollTop = box.scrollHeight; });
  await server.startRun('followed', 'Answer without an end.');
  await at(page, 'talk').getByText('Now it hangs.').waitFor();
  await scrolledTo(page, 'end');
  // Who reads elsewhere stays there.
  await at(page, 'talk').evaluate((box) => { box.scrollTop = 10; });
  await server.post('/threads/followed/cancel', {});
  await painted(page, (await server.runEnded('followed', (await server.log('followed')).findLast(({ type }) => type === 'RUN_STARTED').seq)).seq);
  assert.equal(await at(page, 'talk').evaluate((box) => box.scrollTop), 10);
  await done(page);
});

test('the own message after an opened conversation is in view, and what follows it', async () => {
  await server.run('replied', 'Answer at length.');
  const page = await open(server, '#/t/replied?tab=talk', { height: 560 });
  await scrolledTo(page, 'answer');
  await at(page, 'message-field').fill('Answer without an end.');
  await at(page, 'send').click();
  await at(page, 'message').nth(1).waitFor();
  await scrolledTo(page, 'end');
  await at(page, 'talk').getByText('Now it hangs.').waitFor();
  await scrolledTo(page, 'end');
  await server.post('/threads/replied/cancel', {});
  await done(page);
});

test('a run that is under way is steered, followed, or interrupted', async () => {
  for (const [way, onBusy] of [['steer', 'steer'], ['enqueue', 'enqueue'], ['interrupt', 'interrupt']]) {
    const thread = `busy-${way}`;
    await cases.startRun(thread, 'Take your time.');
    const begun = await cases.until(thread, (told) => told.type === 'LLM_STREAM_START' && told.parentId === 'first');
    const page = await open(cases, `#/t/${thread}?tab=talk`);
    await painted(page, begun.seq);
    await at(page, `way-${way}`).click();
    await at(page, 'message-field').fill('Do it politely.');
    const sent = page.waitForRequest((one) => one.url().endsWith('/process'));
    await at(page, 'message-field').press('Control+Enter');
    assert.deepEqual((await sent).postDataJSON(), { query: 'Do it politely.', onBusy });
    await page.waitForFunction(() => document.querySelector('[data-testid=message-field]').value === '');
    await cases.post(`/threads/${thread}/cancel`, {}).catch(() => {});
    await done(page);
  }
});

test('an answer is copied as it was written, a block of code alone, and a selection without the hosts beside links', async () => {
  await server.run('copied', 'Answer at length.');
  const page = await open(server, '#/t/copied?tab=talk', { permissions: ['clipboard-read', 'clipboard-write'] });
  const copies = at(page, 'answer').getByRole('button', { name: 'Copy' });
  await copies.first().waitFor();
  assert.equal(await copies.count(), 2);
  const kept = () => page.evaluate(() => navigator.clipboard.readText());
  await copies.first().click();
  await at(page, 'answer').getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await kept(), 'const parcels = 3;');
  await copies.click();
  await copies.waitFor({ state: 'detached' });
  const [told] = (await server.get('/threads/copied/messages')).items.filter((one) => one.role === 'AI');
  assert.equal(await kept(), told.content);
  assert.match(told.content, /^## What was found\n/);
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector('.md')));
  await page.keyboard.press('Control+c');
  assert.match(await kept(), /a link/);
  assert.doesNotMatch(await kept(), /example\.com/);
  await done(page);
});

test('the whole conversation is printed, dark on white, without what is pressed', async () => {
  for (let i = 0; i < 5; i++) await server.run('printed', 'Answer at length.');
  for (const width of [1440, 794]) {
    const page = await open(server, '#/t/printed?tab=talk', { width });
    await page.locator('.md').nth(4).waitFor({ state: 'attached' });
    await page.evaluate(() => { document.documentElement.dataset.theme = 'dark'; });
    await page.emulateMedia({ media: 'print' });
    const [whole, all] = await page.evaluate(() => [document.querySelector('.talk').scrollHeight, document.documentElement.scrollHeight]);
    assert.ok(whole > 1200 && all > whole, `${whole} of ${all}`);
    assert.equal(await page.locator('button:visible, textarea:visible, .rail:visible').count(), 0);
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).color), 'rgb(30, 28, 24)');
    await done(page);
  }
});

test('an open question of the conversation is printed, and of rows that are drawn as they are scrolled those in sight', async () => {
  await server.run('printed-ask', INVITE);
  const page = await open(server, '#/t/printed-ask?tab=talk');
  await page.locator('.ask-link').waitFor();
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.locator('.ask-link').isVisible(), true);
  const overflow = (name) => page.locator(name).evaluate((one) => getComputedStyle(one).overflowY);
  assert.equal(await overflow('.scroll.tl'), 'auto');
  await page.evaluate(() => { location.hash = '#/t/printed-ask/list?tab=talk'; });
  assert.equal(await overflow('.scroll:has(> .plan)'), 'visible');
  await page.locator('.plan').evaluate((one) => one.classList.add('tight'));
  assert.equal(await overflow('.scroll:has(> .plan)'), 'auto');
  await done(page);
});

test('what is typed while a message is sent stays', async () => {
  await server.run('typed', 'Answer at length.');
  const page = await open(server, '#/t/typed?tab=talk');
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route('**/process', async (route) => {
    await released;
    await route.continue();
  });
  await at(page, 'message-field').fill('Answer at length.');
  await at(page, 'send').click();
  await page.waitForFunction(() => /Sending/.test(document.querySelector('[data-testid=send]').textContent));
  await at(page, 'message-field').fill('And then?');
  release();
  await page.waitForFunction(() => /^Send(?!ing)/.test(document.querySelector('[data-testid=send]').textContent.trim()) && !document.querySelector('[data-testid=send]').disabled);
  assert.equal(await at(page, 'message-field').inputValue(), 'And then?');
  await done(page);
});

test('a message whose answer was lost is sent again as it was, and taken once', async () => {
  await cases.post('/threads', { threadId: 'lost' });
  const page = await open(cases, '#/t/lost?tab=talk');
  const bodies = [];
  await page.route('**/process', async (route) => {
    bodies.push(route.request().postDataJSON());
    if (bodies.length === 2) return busy(route);
    if (bodies.length > 2) return route.continue();
    // The message arrives; its response does not.
    await route.fetch();
    return route.fulfill({ status: 504, contentType: 'text/html', body: '<h1>Gateway Time-out</h1>' });
  });
  await at(page, 'message-field').fill('Take your time.');
  await at(page, 'send').click();
  await page.getByText('Gateway Time-out').waitFor();
  // Its own run is under way.
  await at(page, 'way-steer').waitFor();
  await at(page, 'send').click();
  await page.getByText('Slow down.').waitFor();
  await at(page, 'send').click();
  await page.waitForFunction(() => document.querySelector('[data-testid=message-field]').value === '');
  assert.deepEqual(bodies, Array(3).fill({ query: 'Take your time.' }));
  const { items } = await cases.get('/threads/lost/messages');
  assert.equal(items.filter(({ role }) => role === 'USER').length, 1);
  await cases.post('/threads/lost/cancel', {}).catch(() => {});
  await done(page);
});

test('a message that was refused is sent again in the way that the page shows by then', async () => {
  await cases.post('/threads', { threadId: 'refused' });
  const page = await open(cases, '#/t/refused?tab=talk');
  const bodies = [];
  await page.route('**/process', (route) => {
    bodies.push(route.request().postDataJSON());
    return bodies.length === 1 ? busy(route) : route.continue();
  });
  await at(page, 'message-field').fill('Do it politely.');
  await at(page, 'send').click();
  await page.getByText('Slow down.').waitFor();
  await cases.startRun('refused', 'Take your time.');
  await at(page, 'way-steer').waitFor();
  await at(page, 'send').click();
  await page.waitForFunction(() => document.querySelector('[data-testid=message-field]').value === '');
  assert.deepEqual(bodies, [{ query: 'Do it politely.' }, { query: 'Do it politely.', onBusy: 'steer' }]);
  await cases.post('/threads/refused/cancel', {}).catch(() => {});
  await done(page);
});

test('a message to the past goes to a fork of it', async () => {
  await server.run('origin', 'Answer at length.');
  const page = await open(server, '#/t/origin?at=12&tab=talk');
  await showing(page, 12);
  await at(page, 'message-field').fill('Answer at length.');
  await at(page, 'send').click();
  await page.waitForFunction(() => location.hash.startsWith('#/t/') && !location.hash.includes('origin'));
  await page.getByText('Forked from').waitFor();
  await page.getByRole('link', { name: 'Compare' }).click();
  await at(page, 'differences').waitFor();
  assert.match(await at(page, 'differences').innerText(), /Same up to observation 12/);
  await done(page);
});

test('what an item promised, called and waited for', async () => {
  await server.run('item', DINNER);
  const page = await open(server, '#/t/item?tab=item&sel=tip');
  await at(page, 'item').waitFor();
  const text = await at(page, 'item').innerText();
  assert.match(text, /Promised\s+The tip as a number\s+Delivered\s+✓\s*The tip is 71\.40/);
  assert.equal(await at(page, 'call').count(), 2);
  const sums = await at(page, 'waits').locator('tr').allInnerTexts();
  assert.match(sums.at(-1), /together/);
  // In the past, later calls are not shown.
  const first = (await server.log('item')).find((told) => told.type === 'TOOL_CALL' && told.parentId === 'tip');
  await page.goto(`${server.url}/#/t/item?tab=item&sel=tip&at=${first.seq}`);
  await showing(page, first.seq);
  assert.equal(await at(page, 'call').count(), 1);
  await done(page);
});

test('one item is skipped, another done again, by hand', async () => {
  await server.run('hand', INVITE);
  const page = await open(server, '#/t/hand?tab=item&sel=write');
  await at(page, 'item-retry').waitFor();
  const { lastSeq } = await server.get('/threads/hand');
  await at(page, 'item-retry').click();
  await server.until('hand', (told) => told.type === 'ITEM_STATUS_CHANGE' && told.content.itemId === 'write' && told.content.status === 'in_progress', lastSeq);
  await done(page);
  await cases.startRun('skip', 'Take your time.');
  await cases.until('skip', (told) => told.type === 'LLM_STREAM_START' && told.parentId === 'first');
  const other = await open(cases, '#/t/skip?tab=item&sel=third');
  await at(other, 'item-skip').click();
  const told = await cases.until('skip', (one) => one.type === 'ITEM_STATUS_CHANGE' && one.content.itemId === 'third');
  assert.equal(told.content.status, 'cancelled');
  await done(other);
});

test('an item of a run that is over is asked for again in the conversation', async () => {
  await cases.run('anew', 'Fail at one of two.');
  const page = await open(cases, '#/t/anew?tab=item&sel=bad');
  assert.match(await at(page, 'delivered').innerText(), /^Delivered\s+nothing$/);
  await at(page, 'item-anew').click();
  await at(page, 'talk').waitFor();
  const asked = 'Do the item bad again: Do what fails';
  assert.equal(await at(page, 'message-field').inputValue(), asked);
  // What was typed and not sent stays.
  await at(page, 'message-field').fill('Send them all. ');
  await at(page, 'tab-item').click();
  await at(page, 'item-anew').click();
  await at(page, 'talk').waitFor();
  assert.equal(await at(page, 'message-field').inputValue(), `Send them all. \n\n${asked}`);
  await done(page);
  // Who may not run is told why not.
  const reader = await open(cases, '#/t/anew?tab=item&sel=bad');
  await reader.route('**/whoami', async (route) => {
    const caller = await (await route.fetch()).json();
    return route.fulfill({ json: { ...caller, scopes: ['read'] } });
  });
  await reader.reload();
  await at(reader, 'item').getByText('This key may read only').waitFor();
  assert.equal(await at(reader, 'item-anew').isDisabled(), true);
  await done(reader);
});

test('what a model call saw, by parts; and what differs from another attempt', async () => {
  await server.run('context', DINNER);
  const page = await open(server, '#/t/context?tab=context&sel=tip');
  const context = at(page, 'context');
  await context.locator('.win').waitFor();
  assert.match(await context.innerText(), /\d tokens/);
  assert.doesNotMatch(await context.innerText(), /not exactly as it was sent/);
  await context.getByText('Results of other items').click();
  await context.getByText(/BEGIN item bill/).waitFor();
  await context.getByText('This item so far').first().waitFor();
  await context.locator('select').last().selectOption({ index: 1 });
  await context.getByText('differs').first().waitFor();
  assert.ok(await context.getByText('same', { exact: true }).count() > 0);
  await shot(page, 'context');
  await done(page);
});
