// Plans are edited in the page, also while they run and while somebody else edits them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { listen, serve } from '../support/setup.mjs';

const shop = await listen((asked, answer) => {
  asked.resume();
  answer.end('{}');
});
const server = await serve({ script: 'people.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.post('/http-tools', { name: 'refund', description: 'Pays.', class: 'irreversible', url: `${shop.url}/refund`, inputSchema: { type: 'object' } });

const row = (page, id) => page.locator(`[data-testid=edit-row][data-id="${id}"]`);
const field = (page, id, name) => row(page, id).locator(`[data-testid=edit-${name}]`);

async function patch(thread, operations) {
  const plan = await fetch(`${server.url}/threads/${thread}/plan`);
  await plan.json();
  return server.ask('PATCH', `/threads/${thread}/plan`, operations, { 'content-type': 'application/json-patch+json', 'if-match': plan.headers.get('etag') });
}

async function opened(thread) {
  await server.run(thread, 'Pay the refund.');
  const page = await open(server, `#/t/${thread}/edit`);
  await row(page, 'notify').waitFor();
  return page;
}

test('what is asked about is locked; the rest is changed, added, moved and saved', async () => {
  const page = await opened('edit');
  assert.equal(await row(page, 'refund').getAttribute('data-state'), 'lock');
  await field(page, 'notify', 'description').fill('Write to the customer, in Finnish');
  assert.match(await row(page, 'notify').innerText(), /was “Write to the customer”/);
  await at(page, 'add-item').click();
  await field(page, 'new-1', 'description').fill('Look at the photos');
  await field(page, 'new-1', 'tools').fill('calculator');
  await field(page, 'new-1', 'after').fill('refund');
  await field(page, 'new-1', 'description').press('Alt+ArrowUp');
  await at(page, 'save-plan').click();
  await at(page, 'plan-list').waitFor();
  const list = await server.get('/threads/edit/plan');
  assert.deepEqual(list.map((item) => item.id), ['refund', 'notify', 'new-1', 'report']);
  assert.equal(list[1].description, 'Write to the customer, in Finnish');
  assert.deepEqual([list[2].requiredTools, list[2].dependencies], [['calculator'], ['refund']]);
  await done(page);
});

test('a new item that is given a name in use changes no other, and is renamed', async () => {
  const page = await opened('twice');
  await at(page, 'add-item').click();
  const fresh = page.locator('[data-testid=edit-row][data-state=new]');
  const rename = async (id) => {
    await fresh.locator('[data-testid=edit-id]').selectText();
    await page.keyboard.type(id);
    await page.keyboard.press('Enter');
  };
  await rename('notify');
  await fresh.getByText('There is another notify.').first().waitFor();
  await fresh.locator('[data-testid=edit-description]').fill('Check');
  await rename('terms');
  await row(page, 'terms').waitFor();
  await at(page, 'save-plan').click();
  await at(page, 'plan-list').waitFor();
  const list = await server.get('/threads/twice/plan');
  assert.deepEqual(list.map((item) => item.id), ['refund', 'notify', 'report', 'terms']);
  assert.deepEqual([list[1].description, list[3].description], ['Write to the customer', 'Check']);
  await done(page);
});

test('mistakes are said while typing, and cannot be saved', async () => {
  const page = await opened('mistakes');
  await field(page, 'notify', 'after').fill('report');
  assert.match(await row(page, 'notify').innerText(), /goes in a circle: notify → report → notify/);
  assert.equal(await at(page, 'save-plan').isDisabled(), true);
  await field(page, 'notify', 'after').fill('nobody');
  assert.match(await row(page, 'notify').innerText(), /There is no item nobody/);
  await field(page, 'notify', 'after').fill('refund');
  await field(page, 'notify', 'tools').fill('rm');
  assert.match(await row(page, 'notify').innerText(), /There is no tool rm/);
  await field(page, 'notify', 'tools').fill('');
  assert.equal(await at(page, 'edit-wrong').count(), 0);
  await done(page);
});

test('where the plan has moved on, the edits that still fit are laid on it', async () => {
  const page = await opened('moved');
  await field(page, 'notify', 'description').fill('Mine');
  await field(page, 'report', 'description').fill('Report, mine');
  await patch('moved', [{ op: 'replace', path: '/1/description', value: 'Theirs' }, { op: 'add', path: '/-', value: { id: 'extra', description: 'Also theirs' } }]);
  await at(page, 'save-plan').click();
  await at(page, 'rebased').waitFor();
  assert.match(await at(page, 'rebased').innerText(), /moved on to v2\.\s+1 of 2 of your edits still fit/);
  assert.match(await at(page, 'lost-edit').innerText(), /notify description: it was changed otherwise meanwhile. You wrote “Mine”/);
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Theirs');
  assert.equal(await field(page, 'report', 'description').inputValue(), 'Report, mine');
  await at(page, 'save-plan').click();
  await at(page, 'plan-list').waitFor();
  const list = await server.get('/threads/moved/plan');
  assert.deepEqual(list.map((item) => item.description), ['Pay the refund', 'Theirs', 'Report, mine', 'Also theirs']);
  await done(page);
});

test('an item that begins meanwhile locks, and the edit of it is named as too late', async () => {
  const page = await opened('late');
  await field(page, 'notify', 'description').fill('Too late');
  const { suspensionId } = await questionOf(server, 'late');
  await server.resume('late', { suspensionId, approved: true });
  await server.runEnded('late');
  await painted(page, (await server.log('late')).at(-1).seq);
  assert.equal(await row(page, 'notify').getAttribute('data-state'), 'lock');
  assert.match(await row(page, 'notify').innerText(), /your edit came too late/);
  await done(page);
});

test('tools that came later are known', async () => {
  await server.run('tools', 'Pay the refund.');
  const page = await open(server, '#/t/tools');
  await at(page, 'plan-version').waitFor();
  await server.post('/http-tools', { name: 'later', description: 'Came later.', class: 'read', url: `${shop.url}/refund`, inputSchema: { type: 'object' } });
  await page.evaluate(() => { location.hash = '#/t/tools/edit'; });
  await row(page, 'notify').waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll('#tool-names option')].some((one) => one.value === 'later'));
  await field(page, 'notify', 'tools').fill('later');
  assert.equal(await at(page, 'edit-wrong').count(), 0);
  await at(page, 'save-plan').click();
  await at(page, 'plan-list').waitFor();
  const list = await server.get('/threads/tools/plan');
  assert.deepEqual(list.find((item) => item.id === 'notify').requiredTools, ['later']);
  await done(page);
});

test('tools that the client of the run carries out are known', async () => {
  const clientTools = [{ name: 'where_am_i', description: 'Where the client is.', inputSchema: { type: 'object' } }];
  await server.run('client', 'Pay the refund.', { options: { clientTools } });
  const page = await open(server, '#/t/client/edit');
  await row(page, 'notify').waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll('#tool-names option')].some((one) => one.value === 'where_am_i'));
  await field(page, 'notify', 'tools').fill('where_am_i');
  assert.equal(await at(page, 'edit-wrong').count(), 0);
  await at(page, 'save-plan').click();
  await at(page, 'plan-list').waitFor();
  const list = await server.get('/threads/client/plan');
  assert.deepEqual(list.find((item) => item.id === 'notify').requiredTools, ['where_am_i']);
  await done(page);
});

test('edits are not lost unasked to a look at the past', async () => {
  const page = await opened('unsaved');
  await field(page, 'notify', 'description').fill('Mine');
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    return dialog.dismiss();
  });
  await page.getByRole('button', { name: 'One observation back' }).click();
  assert.match(asked.join(), /Leave without saving\?/);
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Mine');
  await page.evaluate(() => location.assign('#/t/unsaved/edit?at=3'));
  await page.waitForFunction(() => location.hash === '#/t/unsaved/edit');
  assert.equal(asked.length, 2);
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Mine');
  await done(page);
});

test('what the server refuses stands at its field', async () => {
  const page = await opened('refused');
  await page.route('**/plan', (route) => (route.request().method() === 'PATCH'
    ? route.fulfill({ status: 422, contentType: 'application/problem+json', body: JSON.stringify({
      type: 'x', title: 'The plan is invalid', status: 422, detail: 'Item notify requires an unknown tool.', code: 'plan_invalid', traceId: 'a', retryable: false,
      errors: [{ pointer: '/1/requiredTools', detail: 'rm is not enabled here' }] }) }) : route.continue()));
  await field(page, 'notify', 'description').fill('Other');
  await at(page, 'save-plan').click();
  await at(page, 'edit-refused').waitFor();
  assert.match(await row(page, 'notify').innerText(), /rm is not enabled here/);
  assert.equal(await field(page, 'notify', 'tools').getAttribute('aria-invalid'), 'true');
  await done(page);
});

test('what an edit would ask is told before it is saved', async () => {
  const page = await opened('foresee');
  await field(page, 'report', 'tools').fill('demo_send_email');
  await at(page, 'foresee').click();
  await at(page, 'foreseen').waitFor();
  assert.match(await row(page, 'report').innerText(), /demo_send_email would ask a person/);
  await done(page);
});

test('leaving with edits asks', async () => {
  const page = await opened('leave');
  await field(page, 'notify', 'description').fill('Unsaved');
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    return asked.length === 1 ? dialog.dismiss() : dialog.accept();
  });
  await page.locator('nav[aria-label=Pages] a', { hasText: 'Usage' }).first().click();
  await page.waitForFunction(() => location.hash.endsWith('/edit'));
  assert.match(asked[0], /Leave without saving/);
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Unsaved');
  await page.locator('nav[aria-label=Pages] a', { hasText: 'Usage' }).first().click();
  await at(page, 'usage').waitFor();
  await done(page);
});

/** Holds what is saved; gives back how to let it go on. */
async function holdSaving(page) {
  const isSaving = (one) => one.method() === 'PATCH';
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route('**/plan', async (route) => {
    if (isSaving(route.request())) await released;
    await route.continue();
  });
  const sent = page.waitForRequest(isSaving);
  await at(page, 'save-plan').click();
  await sent;
  return release;
}

test('a plan that is saved late takes nobody off another page', async () => {
  const page = await opened('saved-late');
  page.on('dialog', (dialog) => dialog.accept());
  await field(page, 'notify', 'description').fill('Saved late');
  const release = await holdSaving(page);
  await page.locator('nav[aria-label=Pages] a', { hasText: 'Usage' }).first().click();
  await at(page, 'usage').waitFor();
  const told = page.waitForFunction(() => document.getElementById('said').textContent === 'The plan was saved.');
  release();
  await told;
  assert.match(page.url(), /#\/usage$/);
  assert.equal((await server.get('/threads/saved-late/plan'))[1].description, 'Saved late');
  await done(page);
});

test('what is being saved is not edited until it is known what became of it', async () => {
  const page = await opened('saving');
  await field(page, 'notify', 'description').fill('Sent');
  const release = await holdSaving(page);
  await field(page, 'notify', 'description').press('x');
  await at(page, 'add-item').click();
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Sent');
  assert.equal(await row(page, 'new-1').count(), 0);
  release();
  await at(page, 'plan-list').waitFor();
  assert.equal((await server.get('/threads/saving/plan'))[1].description, 'Sent');
  await done(page);
});

test('a plan that is read late does not take the edits that were begun meanwhile', async () => {
  const page = await opened('read-late');
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route('**/plan', async (route) => {
    await released;
    await route.continue();
  });
  const asked = page.waitForRequest('**/plan');
  await patch('read-late', [{ op: 'replace', path: '/2/description', value: 'Theirs' }]);
  await asked;
  await field(page, 'notify', 'description').fill('Mine');
  const read = page.waitForResponse('**/plan');
  release();
  await (await read).finished();
  // The change that the response causes is painted in the next frame.
  await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
  assert.equal(await field(page, 'notify', 'description').inputValue(), 'Mine');
  await done(page);
});
