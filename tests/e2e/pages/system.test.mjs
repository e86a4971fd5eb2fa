// The System page: what an operator sees there, and its few actions.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { open, serious } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { bearer } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { listen, serve } from '../support/setup.mjs';

const told = [];
/** Resolves when the pager was told so often. */
let wanted = { count: Infinity, resolve: () => {} };
const toldTimes = (count) => new Promise((resolve) => {
  wanted = { count, resolve };
  if (told.length >= count) resolve();
});

const pager = await listen((asked, answer) => {
  asked.resume();
  asked.on('end', () => {
    told.push(asked.headers['webhook-id']);
    answer.end();
    if (told.length >= wanted.count) wanted.resolve();
  });
});
const server = await serve({ env: { PES_EGRESS_ALLOW: '127.0.0.1' } });

test('every table is there, and says what it is when it is empty', async () => {
  const page = await open(server, '#/system');
  await at(page, 'section-tools').getByText('calculator').waitFor();
  for (const [name, words] of [['mcp-servers', /No MCP server is known/], ['agents', /No other agent is known/], ['webhooks', /No webhook is set/], ['keys', /No key was made here/]]) {
    assert.match(await at(page, `section-${name}`).innerText(), words);
  }
  assert.match(await at(page, 'ready').innerText(), /pes \d+\.\d+\.\d+ · ready/);
  await done(page);
});

test('the limits are there, with what is used of them', async () => {
  const cap = (caps) => server.ask('PUT', '/limits', caps);
  await cap({ tenantDayTokens: 1_000_000, keyMonthTokens: 1_000_000 });
  await server.run('spends', INVITE);
  const { spend: [{ usedTokens: used }], runs } = await server.get('/limits');
  await cap({ tenantDayTokens: used, keyMonthTokens: 4 * used });
  const page = await open(server, '#/system');
  const rows = at(page, 'section-limits').locator('tbody tr');
  await rows.first().waitFor();
  const [said, bars] = await rows.evaluateAll((all) => [
    all.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.innerText.trim())),
    all.map((row) => row.querySelector('.hbar')).map((bar) => bar && [bar.style.width, bar.matches('.full')]),
  ]);
  const tokens = (n) => `${n < 10_000 ? n.toLocaleString('en') : `${(n / 1000).toFixed(1)}k`} tokens`;
  assert.deepEqual(said, [
    ['This tenant, this day', tokens(used), tokens(used)], ['This key, this month', tokens(used), tokens(4 * used)],
    ['Runs under way', '0', 'no limit'], ['Runs in the queue', '0', runs.queuedMost.toLocaleString('en')],
  ]);
  assert.deepEqual(bars, [['100%', true], ['25%', false], null, null]);
  assert.deepEqual(await serious(page), []);
  await cap({});
  await done(page);
});

test('every model is asked for a word when somebody presses for it', async () => {
  const page = await open(server, '#/system');
  await at(page, 'check-models').click();
  await at(page, 'section-models').getByText('answers').waitFor();
  const read = page.waitForResponse(/\/models$/);
  await at(page, 'read-again').click();
  await read;
  await at(page, 'section-models').getByText('answers').waitFor();
  await done(page);
});

test('what changed is read when somebody presses for it, or returns to the window', async () => {
  const page = await open(server, '#/system');
  await at(page, 'section-tools').getByText('calculator').waitFor();
  const tool = { name: 'weather', description: 'Tells.', url: 'https://example.com/', inputSchema: {} };
  await server.post('/http-tools', tool);
  await at(page, 'read-again').click();
  await at(page, 'section-tools').getByText('weather').waitFor();
  await server.ask('DELETE', '/http-tools/weather');
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await at(page, 'section-tools').getByText('weather').waitFor({ state: 'detached' });
  // Rules that are being written stay.
  await page.evaluate(() => { location.hash = '#/policy'; });
  await at(page, 'no-rules').waitFor();
  const put = (id) => server.ask('PUT', '/policy', { rules: id ? [{ id, tool: 'weather', action: 'ask' }] : [] }, { 'if-match': '*' });
  await put('first');
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await at(page, 'rules').getByText('first').waitFor();
  await at(page, 'rules-json').fill('[]');
  await put(null);
  const asked = [];
  page.on('request', (request) => request.url().includes('/policy') && asked.push(request.url()));
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await at(page, 'no-rules').waitFor();
  assert.deepEqual(asked, []);
  assert.equal(await at(page, 'rules-json').inputValue(), '[]');
  await done(page);
});

test('rules that are written while they are being read stay', async () => {
  const page = await open(server, '#/policy');
  await at(page, 'no-rules').waitFor();
  const rules = /\/policy\?effective=true$/;
  for (const answer of [(route) => route.fallback(), (route) => route.abort()]) {
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route(rules, (route) => held.then(() => answer(route)), { times: 1 });
    const asked = page.waitForRequest(rules);
    await page.evaluate(() => dispatchEvent(new Event('focus')));
    await asked;
    await at(page, 'rules-json').fill('[{ "id": "mine", "tool": "weather", "action": "ask" }]');
    const over = Promise.race(['requestfinished', 'requestfailed'].map((name) => page.waitForEvent(name, (one) => rules.test(one.url()))));
    release();
    await over;
    // What is asked for later is answered later, and then painted.
    await page.evaluate(() => fetch('version').then((answered) => answered.text()).then(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); })));
    await at(page, 'rules').getByText('mine').waitFor();
    assert.match(await at(page, 'rules-json').inputValue(), /mine/);
    await at(page, 'rules-json').fill('[]');
  }
  await done(page);
});

test('a key is made once, also when the button is pressed twice', async () => {
  const page = await open(server, '#/system');
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  const sent = [];
  await page.route(/\/keys$/, async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    sent.push(route.request().postDataJSON().name);
    await held;
    return route.fulfill({ status: 403, contentType: 'application/problem+json', json: { title: 'No', detail: 'No key is made.', code: 'forbidden' } });
  });
  await at(page, 'make-key').click();
  await at(page, 'key-name').fill('laptop');
  await page.getByRole('button', { name: 'Make it' }).dblclick();
  release();
  await page.getByText('No key is made.').waitFor();
  assert.deepEqual(sent, ['laptop']);
  const again = page.waitForRequest((one) => one.method() === 'POST' && /\/keys$/.test(one.url()));
  await page.getByRole('button', { name: 'Make it' }).click();
  await again;
  await done(page);
});

test('a message that was delivered can be sent again', async () => {
  await server.post('/webhooks', { url: `${pager.url}/hook`, events: ['suspension.requested'] });
  const first = toldTimes(1);
  await server.run('hooked', INVITE);
  await first;
  const page = await open(server, '#/system');
  const row = at(page, 'section-webhooks').locator('tbody tr').first();
  await row.waitFor();
  assert.match(await row.innerText(), /suspension\.requested/);
  assert.equal(await row.locator('td').nth(2).innerText(), new URL(pager.url).host);
  // The heading counts webhooks, not what was sent to them.
  await server.post('/webhooks', { url: `${pager.url}/other`, events: ['run.failed'] });
  await page.reload();
  await row.waitFor();
  assert.equal(await at(page, 'section-webhooks').locator('h2 .num').innerText(), '2');
  // It is shown as delivered once the response is stored.
  while (!(await row.locator('[data-testid=replay]').count())) {
    await page.reload();
    await row.waitFor();
  }
  const second = toldTimes(2);
  await row.locator('[data-testid=replay]').click();
  await second;
  assert.equal(told[0], told[1]);
  await done(page);
});

test('the first key has admin, is shown, and the page goes on with it', async () => {
  const keyless = await Server.start();
  after(() => keyless.stop());
  const page = await open(keyless, '#/system');
  await at(page, 'make-key').click();
  assert.match(await at(page, 'first-key').innerText(), /this server closes/);
  const scopes = page.locator('form.make input[type=checkbox]');
  assert.deepEqual(await scopes.evaluateAll((boxes) => boxes.map(({ checked, disabled }) => [checked, disabled])),
    [[false, false], [false, false], [false, false], [true, true]]);
  await at(page, 'key-name').fill('laptop');
  await page.getByRole('button', { name: 'Make it' }).click();
  await at(page, 'section-keys').getByText('valid').waitFor();
  const key = await at(page, 'made-key').locator('code').innerText();
  assert.match(key, /^pes_[0-9a-f]{64}$/);
  assert.equal(new URL(page.url()).hash, '#/system');
  await assert.rejects(keyless.get('/keys'), { status: 401 });
  const [made] = (await keyless.get('/keys', bearer(key))).items;
  assert.deepEqual([made.name, made.scopes], ['laptop', ['admin']]);
  // Another one is no first key.
  await at(page, 'make-key').click();
  assert.equal(await at(page, 'first-key').count(), 0);
  assert.deepEqual(await scopes.evaluateAll((boxes) => boxes.map(({ checked }) => checked)), [true, false, false, false]);
  await done(page);
});

test('a key that is over is not called valid', async () => {
  const key = { scopes: ['read'], tenant: 'default', createdAt: 1 };
  const over = [{ expiresAt: 2 }, { expiresAt: 2, revokedAt: 1 }];
  const items = [...over, { expiresAt: Date.now() + 86_400_000 }, {}].map((one, at) => ({ ...key, ...one, keyId: `key_${at}`, name: `k${at}` }));
  const page = await open(server, '#/new');
  await page.route(/\/keys(\?.*)?$/, (route) => route.fulfill({ json: { items } }));
  await page.evaluate(() => { location.hash = '#/system'; });
  await at(page, 'section-keys').locator('tbody tr').nth(3).waitFor();
  const words = await at(page, 'section-keys').locator('tbody tr td:first-child').allInnerTexts();
  assert.deepEqual(words.map((word) => word.trim()), ['expired', 'revoked', 'valid', 'valid']);
  await done(page);
});

test('why an MCP server is down is shown whole', async () => {
  const reason = `cannot reach ${'a'.repeat(60)}.${'b'.repeat(60)}.example:7178: connection refused`;
  const page = await open(server, '#/new');
  await page.route(/\/mcp-servers(\?.*)?$/, (route) => route.fulfill({ json: { items: [{ name: 'far', health: 'down', restarts: 3, tools: [], reason }] } }));
  await page.evaluate(() => { location.hash = '#/system'; });
  const text = at(page, 'section-mcp-servers').getByText(reason);
  await text.waitFor();
  const [inside, outside] = await Promise.all([text, at(page, 'section-mcp-servers')].map((one) => one.boundingBox()));
  assert.ok(inside.x + inside.width <= outside.x + outside.width, 'nothing of it is beyond the edge of its section');
  await done(page);
});

test('usage counts calls without a price apart, and never as free', async () => {
  const page = await open(server, '#/usage');
  await at(page, 'totals').waitFor();
  assert.match(await at(page, 'totals').innerText(), /no price/);
  assert.doesNotMatch(await at(page, 'usage').innerText(), /\$0/);
  assert.match(await at(page, 'no-price').innerText(), /demo:demo-scripted\s*: add one under prices/);
  for (const by of ['model', 'run', 'item']) {
    await at(page, `by-${by}`).click();
    await page.waitForFunction((name) => location.hash.includes(`by=${name}`), by);
  }
  await at(page, 'usage').getByText('Dearest items').waitFor();
  await done(page);
});

test('usage names the threads of runs that are not among the newest, and says how many it leaves out', async () => {
  const page = await open(server, '#/new');
  const { items: [run] } = await server.get('/runs?threadId=hooked');
  await page.route(/\/runs\?limit=200/, (route) => route.fulfill({ json: { items: [] } }));
  await page.route(/\/usage\?groupBy=run/, async (route) => {
    const { items } = await (await route.fetch()).json();
    const row = items.find(({ runId }) => runId === run.runId);
    const others = Array.from({ length: 60 }, () => ({ ...row, runId: 'deleted', inputTokens: 0 }));
    return route.fulfill({ json: { items: [...others, row] } });
  });
  await page.evaluate(() => { location.hash = '#/usage?by=run'; });
  const link = at(page, 'usage').locator(`a[href*="${run.runId}"]`);
  await link.waitFor();
  assert.equal(await link.innerText(), 'Dinner invitation');
  await at(page, 'usage').getByText('The dearest 50 of 61.').waitFor();
  await done(page);
});

/** Answers each page of a list with this many entries, and another page behind it. Counts the pages. */
const endless = async (page, pattern, length) => {
  const told = { pages: 0 };
  await page.route(pattern, async (route) => {
    told.pages += 1;
    const body = await (await route.fetch({ url: route.request().url().replace(/&cursor=\w+/, '') })).json();
    return route.fulfill({ json: { items: Array.from({ length }, () => body.items[0]), nextCursor: `p${told.pages}` } });
  });
  return told;
};

test('a list that is not whole says so: what was answered, usage', async () => {
  const page = await open(server, '#/new');
  await at(page, 'threads').locator('[data-thread]').first().waitFor();
  const answered = await endless(page, /\/suspensions\?status=all/, 50);
  await page.evaluate(() => { location.hash = '#/questions?show=answered'; });
  await at(page, 'more').waitFor();
  assert.ok(answered.pages >= 2, 'a short page is not the last one');
  const usage = await endless(page, /\/usage\?groupBy=(run|item)/, 500);
  await page.evaluate(() => { location.hash = '#/usage?by=item'; });
  await at(page, 'more').waitFor();
  assert.match(await at(page, 'more').innerText(), /oldest 2000 only/);
  assert.equal(usage.pages, 4, 'what the server gives is followed page by page');
  await done(page);
});

test('a tool that describes itself otherwise is looked at before it is approved, and what was seen is approved', async () => {
  const tool = { name: 'far__add', tool: 'add', standing: 'changed', hash: 'beef' };
  const far = { name: 'far', health: 'ready', restarts: 0, tools: [tool] };
  const said = { approved: { description: 'Adds.', annotations: {} }, now: { description: 'Adds, and sends.', annotations: {}, leftOut: ['inputSchema'] } };
  const page = await open(server, '#/new');
  await page.route(/\/mcp-servers(\?.*)?$/, (route) => route.fulfill({ json: { items: [far] } }));
  await page.route('**/mcp-servers/far', (route) => route.fulfill({ json: { ...far, tools: [{ ...tool, ...said }] } }));
  await page.route('**/approve', (route) => route.fulfill({ json: far }));
  await page.evaluate(() => { location.hash = '#/system'; });
  await at(page, 'changed-tool').locator('summary').click();
  await at(page, 'diff').waitFor();
  assert.equal((await at(page, 'diff').innerText()).replace(/\s*\n\s*/g, '|'), '"description": "Adds."|"description": "Adds, and sends."');
  assert.match(await at(page, 'changed-tool').innerText(), /Too long to be shown whole: inputSchema\./);
  const sent = page.waitForRequest('**/approve');
  await at(page, 'approve-tool').click();
  await at(page, 'approve-tool').click();
  const { pathname } = new URL((await sent).url());
  assert.deepEqual([pathname, (await sent).postDataJSON()], ['/mcp-servers/far/tools/add/approve', { hash: 'beef' }]);
  await done(page);
});
