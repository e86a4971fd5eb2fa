// Output of models, tools, agents and people is shown as text: it runs nothing, links only to web addresses, and invisible
// characters are shown as their code.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, shot } from '../support/browser.mjs';
import { compare } from '../support/compare.mjs';
import { at, questionOf } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const EVIL = '</title></script><img src=x onerror="document.title=\'taken\'">[x](javascript:document.title=\'taken\')\u202Ederunt\u202C\u001B[31mred\u200B';
/** More than a card shows at once. */
const LONG = `<img src=x onerror="document.title='taken'">${'\u202Ea'.repeat(300)}${'x'.repeat(1_000_000)}`;

const server = await serve({ script: 'cases.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.run('hostile', 'Be hostile.');
await server.run('other', 'Be hostile.');
await server.run('failing', 'Fail with hostile words.');
await server.ask('PATCH', '/threads/other', { title: EVIL }, { 'content-type': 'application/merge-patch+json' });
await server.post('/http-tools', { name: 'evil_tool', description: EVIL, url: `${server.url}/x`, inputSchema: { type: 'object' } });
await server.ask('PUT', '/policy', { rules: [{ id: 'evil', tool: 'demo_send_email', action: 'ask', reason: EVIL, when: [{ pointer: '/to', op: 'eq', value: EVIL }] }] });
await server.post('/threads/hostile/process', { query: EVIL, onBusy: 'steer' });

const stream = async () => (await server.log('hostile')).find(({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'evil').seq;

async function nothingRan(page) {
  assert.equal(await page.locator('img, script:not([type=module]), iframe, object, embed, base, form[action]').count(), 0);
  assert.equal(await page.locator('a[href^="javascript" i], a[href^="data:" i], [onerror], [onclick], [srcdoc]').count(), 0);
  assert.notEqual(await page.title(), 'taken');
  const text = await page.locator('body').innerText();
  assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u200b\u001b]/);
  const attributes = await page.evaluate(() => [...document.querySelectorAll('[title], [aria-label], [placeholder]')]
    .map((one) => `${one.title}${one.getAttribute('aria-label')}${one.getAttribute('placeholder')}`).join(''));
  assert.doesNotMatch(attributes, /[\u202a-\u202e\u2066-\u2069\u200b\u001b]/);
  assert.deepEqual(page.wrong, []);
}

const PLACES = {
  graph: '#/t/hostile', list: '#/t/hostile/list', changes: '#/t/hostile/changes', forecast: '#/t/hostile/forecast', edit: '#/t/hostile/edit',
  item: '#/t/hostile?sel=evil&tab=item', talk: '#/t/hostile?tab=talk', replay: '#/t/hostile?at=12&tab=talk', 'title of a person': '#/t/other', failure: '#/t/failing',
  questions: '#/questions', compare: '#/compare/hostile/other', 'compare with': '#/compare/hostile', usage: '#/usage?by=item', policy: '#/policy', system: '#/system',
  'no such thread': `#/t/${encodeURIComponent(EVIL)}`, 'no such page': `#/${encodeURIComponent(EVIL)}`, 'no such question': `#/questions/${encodeURIComponent(EVIL)}`,
  'narrow: threads': '#/threads', 'narrow: timeline': '#/t/hostile?part=time',
};

const CALLED = ['constructor', '__proto__', 'toString'];
const SAYS = `
[[reply]]
when = { query = "Call them so.", phase = "planning" }
json = { title = "Names", intent = "Count", plan = "Count.", todoList = [${CALLED.map((id) => `{ id = "${id}", description = "Count as ${id}", requiredTools = ["calculator"] }`).join(', ')}] }

[[reply]]
when = { phase = "execution", query = "Call them so.", iteration = 1 }
calls = [{ tool = "calculator", arguments = { expression = "1 + 1" } }]

[[reply]]
when = { query = "Call them so." }
text = "Counted."
`;

test('items have whatever names a model gives them', async (t) => {
  const other = await Server.start({ says: SAYS });
  t.after(() => other.stop());
  await other.run('names', 'Call them so.');
  assert.deepEqual((await compare(other, 'names')).differences, []);
  const { lastSeq, todoList } = await other.get('/threads/names/state');
  assert.deepEqual(todoList.map(({ id, status }) => [id, status]), CALLED.map((id) => [id, 'completed']));
  for (const hash of ['', '/list', '/changes', '/forecast', '/edit', '?sel=__proto__&tab=item', '?sel=constructor&tab=item']) {
    const page = await open(other, `#/t/names${hash}`);
    await painted(page, lastSeq);
    await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
    await nothingRan(page);
    assert.equal(await at(page, 'failure').count(), 0, hash);
    await page.context().close();
  }
});

for (const [name, hash] of Object.entries(PLACES)) {
  test(`nothing runs in ${name}`, async () => {
    const page = await open(server, hash, name.startsWith('narrow') ? { width: 390, height: 844 } : {});
    await page.waitForSelector('main, aside.only');
    if (/^#\/t\/(hostile|other)/.test(hash)) await painted(page, 10);
    await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
    await shot(page, `hostile-${name.replace(/\W+/g, '-')}`);
    await nothingRan(page);
    await page.context().close();
  });
}

test('nothing runs in a prompt, in the log, in an observation and in what is found', async () => {
  const page = await open(server, `#/t/hostile?row=${await stream()}&tab=context`);
  await painted(page, 10);
  await page.locator('details.part').first().waitFor();
  for (const part of await page.locator('details.part > summary').all()) await part.click();
  await nothingRan(page);
  await at(page, 'timeline-log').click();
  await page.locator('.log-row').first().waitFor();
  await nothingRan(page);
  await page.locator('.log-row button', { hasText: 'PLAN_UPDATE' }).first().click();
  await page.locator('dialog').waitFor();
  await nothingRan(page);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.locator('[role=option]').first().waitFor();
  await nothingRan(page);
});

test('a million characters of arguments are looked at before they are approved, and run nothing', async () => {
  const question = await questionOf(server, 'hostile');
  const long = { ...question, toolInput: { ...question.toolInput, body: LONG } };
  const page = await open(server, '#/new');
  await page.route(/\/suspensions\?/, (route) => route.fulfill({ json: { items: [long] } }));
  await page.goto(`${server.url}/#/questions/${question.suspensionId}`);
  await page.reload();
  await at(page, 'args-held').waitFor();
  assert.equal(await at(page, 'approve').isDisabled(), true);
  await at(page, 'show-all').click();
  await at(page, 'args-read').waitFor();
  assert.equal(await at(page, 'approve').isDisabled(), false);
  const { length } = await at(page, 'args-read').innerText();
  assert.ok(length > 1_000_000, `${length} characters`);
  assert.match(await at(page, 'hidden-note').innerText(), /^30\d hidden characters/);
  await nothingRan(page);
});

test('a character that would turn the text around is named where it stands', async () => {
  const page = await open(server, '#/t/hostile');
  await painted(page, 10);
  await page.locator('mark', { hasText: 'U+202E' }).first().waitFor();
  assert.match(await page.locator('.side').innerText(), /hidden characters? (is|are) shown/);
});
