// A failure is shown with its remedy, a refusal with its reason, and a person without a key signs in.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, open, painted, seqOf } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { ADMIN, KEYS, bearer } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'cases.toml' });
const guarded = await serve({ env: KEYS });
await guarded.ask('POST', '/threads/mine/process', { query: INVITE }, { ...bearer(ADMIN), prefer: 'wait=60' });

/** A key made for a test, and its id. */
const makeKey = (name, scopes) => guarded.post('/keys', { name, scopes, tenant: 'default' }, bearer(ADMIN));

async function signedIn(key, hash) {
  const page = await open(guarded, hash);
  await at(page, 'login').waitFor();
  await at(page, 'key').fill(key);
  await at(page, 'sign-in').click();
  return page;
}

test('a failed run says what to do, and can be run again', async () => {
  await server.run('failed', 'Fail at once.');
  const page = await open(server, '#/t/failed');
  await at(page, 'failure').waitFor();
  assert.equal(await at(page, 'failure').getAttribute('data-code'), 'model_refused');
  assert.match(await at(page, 'failure').innerText(), /The provider refused the call[\s\S]*Incorrect API key provided/);
  assert.match(await at(page, 'remedy').innerText(), /Correct what the message names/);
  assert.match(await at(page, 'failures').innerText(), /It ended the run/);
  const before = await seqOf(page);
  await at(page, 'run-again').click();
  await painted(page, before + 1);
  await server.runEnded('failed', before);
  assert.equal((await server.get('/threads/failed/runs')).items.length, 2);
  await done(page);
});

test('a run that was partly done says what failed on one line, which opens to what to do', async () => {
  await server.run('partly', 'Fail at one of two.');
  const page = await open(server, '#/t/partly');
  await at(page, 'partly-done').waitFor();
  assert.match(await at(page, 'partly-done').innerText(), /Not everything could be done\s+bad: Incorrect API key provided\.\s+model_refused/);
  assert.equal(await at(page, 'failure').isVisible(), false);
  await at(page, 'partly-done').click();
  assert.match(await at(page, 'failure').innerText(), /1 of 2 items, kept: good\./);
  assert.match(await at(page, 'failures').innerText(), /item bad/);
  const before = await seqOf(page);
  await at(page, 'run-again').click();
  await painted(page, before + 1);
  await server.runEnded('partly', before);
  assert.equal((await server.get('/threads/partly/runs')).items.length, 2);
  await done(page);
});

test('a run whose budget is spent says so', async () => {
  await server.run('spent', DINNER, { options: { budget: { maxLlmCalls: 3 } } });
  const page = await open(server, '#/t/spent');
  await at(page, 'partly-done').waitFor();
  assert.match(await at(page, 'partly-done').innerText(), /The run's budget is spent\s+The run's budget ended it: its model calls are used up \(3 of 3\)\.\s+budget_exceeded/);
  await done(page);
});

test('a run that is asked for again through a proxy that gave up is asked for once', async () => {
  await server.run('proxied', 'Fail at once.');
  const page = await open(server, '#/t/proxied');
  const keys = [];
  const bodies = [];
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  // What the page knows of models changes between the two.
  await page.route('**/models', (route) => released.then(() => route.continue()));
  await page.route('**/process', async (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    bodies.push(route.request().postDataJSON());
    if (keys.length > 1) return route.continue();
    // The request arrives; its response does not.
    await route.fetch();
    return route.fulfill({ status: 504, contentType: 'text/html', body: '<h1>Gateway Time-out</h1>' });
  });
  await page.routeWebSocket(/proxied/, (socket) => {
    const behind = socket.connectToServer();
    // The effect of the first click is not visible yet.
    behind.onMessage((frame) => (keys.length > 0 ? undefined : socket.send(frame)));
  });
  await page.reload();
  await at(page, 'run-again').click();
  await page.getByText('Gateway Time-out').waitFor();
  const read = page.waitForResponse('**/models');
  release();
  await (await read).finished();
  await at(page, 'run-again').click();
  await page.waitForFunction(() => document.querySelector('[data-testid=failure] .wrong') === null);
  assert.deepEqual(bodies[1], bodies[0]);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.equal((await server.get('/threads/proxied/runs')).items.length, 2);
  await done(page);
});

test('a thread that is not there is said in the place of it', async () => {
  const page = await open(server, '#/t/nobody');
  await at(page, 'failure').waitFor();
  assert.equal(await at(page, 'failure').getAttribute('data-code'), 'not_found');
  assert.equal(await at(page, 'asked-for').innerText(), '/threads/nobody');
  await done(page);
});

test('a thread that is deleted elsewhere is said to be gone', async () => {
  await server.run('gone', INVITE);
  const page = await open(server, '#/t/gone');
  await at(page, 'question').waitFor();
  await server.post('/threads/gone/cancel', {});
  await server.ask('DELETE', '/threads/gone');
  await at(page, 'failure').waitFor();
  assert.equal(await at(page, 'failure').getAttribute('data-code'), 'not_found');
  assert.match(await at(page, 'failure').innerText(), /The thread was deleted\s+not_found\s+Dinner invitation/);
  assert.equal(await at(page, 'asked-for').innerText(), '/threads/gone');
  assert.equal(await at(page, 'remedy').count(), 0);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.conn), 'live');
  await done(page);
});

test('a server with keys asks for one, and the page goes on where it was', async () => {
  const page = await open(guarded, '#/t/mine');
  await at(page, 'login').waitFor();
  assert.equal(await page.locator('nav[aria-label=Pages]').count(), 0);
  await at(page, 'key').fill('pes_not_a_key');
  await at(page, 'sign-in').click();
  await at(page, 'login-problem').waitFor();
  assert.match(await at(page, 'login-problem').innerText(), /not known, was revoked or has expired/);
  assert.equal(await at(page, 'key').inputValue(), '');
  await at(page, 'key').fill(ADMIN);
  await at(page, 'sign-in').click();
  await at(page, 'question').waitFor();
  assert.match(page.url(), /#\/t\/mine$/);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.doesNotMatch(kept, /pes_test/);
  await done(page);
});

test('a key that may read only can do nothing, and says why', async () => {
  const { key } = await makeKey('auditor', ['read']);
  const page = await signedIn(key, '#/t/mine');
  await at(page, 'question').waitFor();
  for (const name of ['approve', 'reject']) assert.equal(await at(page, name).isDisabled(), true);
  assert.match(await at(page, 'why-not').innerText(), /may read only: to answer, use one with the scope approve/);
  await at(page, 'tab-talk').click();
  await at(page, 'message-field').fill('Hello');
  assert.equal(await at(page, 'send').isDisabled(), true);
  assert.match(await at(page, 'compose').innerText(), /use one with the scope run/);
  await page.goto(`${guarded.url}/#/new`);
  await at(page, 'why-not').waitFor();
  assert.equal(await at(page, 'start').isDisabled(), true);
  await done(page);
});

test('whatever a key that may read only presses, nothing is sent', async () => {
  const slow = await Server.start({ env: { PES_DEMO_PACE: '60', ...KEYS } });
  try {
    await slow.ask('POST', '/threads/asks/process', { query: INVITE }, { ...bearer(ADMIN), prefer: 'wait=60' });
    const { key } = await slow.post('/keys', { name: 'auditor', scopes: ['read'], tenant: 'default' }, bearer(ADMIN));
    const page = await open(slow, '#/t/asks');
    await at(page, 'key').fill(key);
    await at(page, 'sign-in').click();
    await at(page, 'question').waitFor();
    const sent = [];
    page.on('request', (request) => {
      if (request.method() !== 'GET') sent.push(`${request.method()} ${new URL(request.url()).pathname}`);
    });
    const disabled = async (names) => {
      for (const name of names) {
        const button = at(page, name).locator('visible=true').first();
        await button.waitFor();
        assert.equal(await button.isDisabled(), true, name);
      }
    };
    await disabled(['approve', 'reject', 'fork', 'pause', 'cancel']);
    for (const press of ['a', 'a', 'x', 'e', 'f', 'p', 'c']) await page.keyboard.press(press);
    assert.equal(await page.locator('dialog').count(), 0);
    const places = {
      '#/t/asks?tab=item&sel=write': ['item-retry'], '#/t/asks/edit': ['save-plan'],
      '#/t/asks?tab=talk': ['send'], '#/t/asks?at=5&tab=talk': ['send'], '#/new': ['start'], '#/policy': ['save-rules'], '#/system': ['check-models'],
    };
    for (const [hash, names] of Object.entries(places)) {
      await page.goto(`${slow.url}/${hash}`);
      if (hash.endsWith('/edit')) {
        await at(page, 'add-item').click();
        await at(page, 'edit-description').last().fill('One more');
      }
      if (hash.endsWith('talk')) await at(page, 'message-field').fill('Hello');
      if (hash === '#/new') await at(page, 'query').fill('Hello');
      await disabled(names);
      if (hash.endsWith('/edit')) {
        await page.keyboard.press('Control+s');
        page.once('dialog', (dialog) => dialog.accept());
      } else if (hash.endsWith('talk') || hash === '#/new') {
        await page.locator('textarea').first().press('Control+Enter');
      }
    }
    assert.deepEqual(sent, []);
    await done(page);
  } finally {
    await slow.stop();
  }
});

test('a key that is revoked ends its session', async () => {
  const { key, keyId } = await makeKey('brief', ['read']);
  const page = await signedIn(key, '#/t/mine');
  await at(page, 'question').waitFor();
  await guarded.ask('DELETE', `/keys/${keyId}`, undefined, bearer(ADMIN));
  // Nobody clicks: the server ends the connection, and the page learns why.
  await at(page, 'login').waitFor();
  assert.equal(await page.locator('nav[aria-label=Pages], [data-testid=head], [data-testid=question], [data-testid=threads]').count(), 0);
  assert.doesNotMatch(await page.locator('body').innerText(), /Team dinner/);
  assert.match(page.url(), /#\/login\?to=/);
  await done(page);
});

test('a session that ends under something unsaved asks once, and goes on where somebody signs in elsewhere', async () => {
  const { key, keyId } = await makeKey('author', ['read', 'admin']);
  const page = await signedIn(key, '#/policy');
  await page.locator('details.part').evaluate((part) => { part.open = true; });
  await at(page, 'rules-json').fill('[]  ');
  let asked = 0;
  page.on('dialog', (dialog) => {
    asked += 1;
    return dialog.dismiss();
  });
  await guarded.ask('DELETE', `/keys/${keyId}`, undefined, bearer(ADMIN));
  await at(page, 'session-over').waitFor();
  for (let i = 0; i < 3; i++) {
    const refused = page.waitForResponse((response) => response.status() === 401 && response.url().endsWith('/whoami'));
    await (i === 0 ? page.getByRole('button', { name: 'Try again' }).click() : page.evaluate(() => dispatchEvent(new Event('focus'))));
    await refused;
  }
  const pressed = page.waitForResponse(/\/policy\/dry-run/);
  await at(page, 'try-rules').click();
  assert.equal((await pressed).status(), 401);
  await at(page, 'rules-refused').waitFor();
  assert.equal(asked, 1);
  const other = await page.context().newPage();
  await other.goto(`${guarded.url}/#/login`);
  await at(other, 'key').fill(ADMIN);
  await at(other, 'sign-in').click();
  await at(other, 'login').waitFor({ state: 'detached' });
  await at(page, 'try-rules').click();
  await at(page, 'session-over').waitFor({ state: 'detached' });
  await at(page, 'dry-run').waitFor();
  await connected(page, 'live');
  assert.equal(await at(page, 'rules-json').inputValue(), '[]  ');
  assert.equal(asked, 1);
  await done(page);
});

test('a key is made, shown once, and revoked', async () => {
  const page = await signedIn(ADMIN, '#/system');
  await at(page, 'make-key').click();
  await at(page, 'key-name').fill('robot');
  await page.getByRole('button', { name: 'Make it' }).click();
  await at(page, 'made-key').waitFor();
  const key = await at(page, 'made-key').locator('code').innerText();
  assert.equal((await guarded.get('/whoami', bearer(key))).keyName, 'robot');
  await page.getByRole('button', { name: 'I have it' }).click();
  const mine = page.locator('tr', { hasText: 'robot' });
  const revoke = mine.locator('[data-testid=revoke]');
  const sent = [];
  page.on('request', (request) => request.method() === 'DELETE' && sent.push(new URL(request.url()).pathname));
  await revoke.dblclick();
  await revoke.getByText('Press again: revoke').waitFor();
  assert.deepEqual(sent, []);
  // A first press alone expires.
  await revoke.getByText(/^Revoke$/).waitFor();
  await revoke.click();
  await revoke.click();
  await mine.getByText('revoked').waitFor();
  await done(page);
});

test('rules are tried on past calls before they are saved', async () => {
  await server.run('ruled', 'Be hostile.');
  const page = await open(server, '#/policy');
  await at(page, 'no-rules').waitFor();
  await at(page, 'rules-json').fill('[{"id": "never", "tool": "demo_*", "action": "deny", "reason": "<b>No</b>"}]');
  assert.equal(await at(page, 'save-rules').isDisabled(), true);
  await at(page, 'try-rules').click();
  await at(page, 'dry-run').waitFor();
  assert.match(await at(page, 'dry-run').innerText(), /1 would be denied/);
  await at(page, 'save-rules').click();
  await page.waitForFunction(() => document.querySelector('[data-testid=save-rules]').disabled);
  await page.getByText('Version 1.').waitFor();
  assert.equal((await server.get('/policy')).rules[0].id, 'never');
  await at(page, 'rules-json').fill('[{"id": "x", "action": "sometimes"}]');
  await at(page, 'try-rules').click();
  await at(page, 'rules-refused').waitFor();
  await done(page);
});

test('rules with a number that a browser rounds cannot be saved from it', async () => {
  const page = await open(server, '#/new');
  const rules = '[{"id": "huge", "tool": "pay", "action": "ask", "when": [{"pointer": "/account", "op": "eq", "value": 9007199254740993}]}]';
  await page.route(/\/policy\?effective/, (route) => route.fulfill({ contentType: 'application/json', body: `{"rules": ${rules}}` }));
  await page.evaluate(() => { location.hash = '#/policy'; });
  await at(page, 'policy').getByText('so many digits').waitFor();
  for (const id of ['try-rules', 'save-rules']) {
    assert.equal(await at(page, id).isDisabled(), true);
    assert.match(await at(page, id).getAttribute('title'), /so many digits/);
  }
  await at(page, 'rules-json').fill('[]');
  assert.equal(await at(page, 'try-rules').isDisabled(), false);
  await at(page, 'rules-json').fill(rules);
  assert.equal(await at(page, 'try-rules').isDisabled(), true);
  await done(page);
});

test('who is not named by the rule, and who asked under four eyes, is told who may', async () => {
  const rules = [
    { id: 'treasury', thread: 'named', tool: 'demo_send_email', action: 'ask', approvers: ['treasurer'] },
    { id: 'second', thread: 'eyes', tool: 'demo_send_email', action: 'ask', fourEyes: true },
    { id: 'both', thread: 'both', tool: 'demo_send_email', action: 'ask', fourEyes: true, approvers: ['treasurer'] },
  ];
  await guarded.ask('PUT', '/policy', { rules }, bearer(ADMIN));
  for (const thread of ['named', 'eyes', 'both']) await guarded.ask('POST', `/threads/${thread}/process`, { query: INVITE }, { ...bearer(ADMIN), prefer: 'wait=60' });
  const page = await signedIn(ADMIN, '#/t/named');
  await at(page, 'question').waitFor();
  await at(page, 'why-not').getByText('Only treasurer may answer.').waitFor();
  for (const name of ['approve', 'reject']) assert.equal(await at(page, name).isDisabled(), true);
  await page.goto(`${guarded.url}/#/t/eyes`);
  await at(page, 'why-not').getByText('somebody else must approve it').waitFor();
  assert.match(await at(page, 'may-answer').innerText(), /Four eyes: root asked for the run, so root may only say no/);
  assert.deepEqual([await at(page, 'approve').isDisabled(), await at(page, 'reject').isDisabled()], [true, false]);
  await page.goto(`${guarded.url}/#/t/both`);
  await at(page, 'may-answer').getByText('Only treasurer may answer.').waitFor();
  assert.match(await at(page, 'may-answer').innerText(), /Four eyes: root asked for the run\.\s/);
  assert.equal(await at(page, 'reject').isDisabled(), true);
  await page.goto(`${guarded.url}/#/questions?show=mine`);
  await at(page, 'show-mine').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[data-testid=question-row]').length === 1);
  await done(page);
});

test('rules of any shape are shown while they are typed', async () => {
  const page = await open(server, '#/policy');
  const type = (rules) => at(page, 'rules-json').fill(JSON.stringify(rules));
  await at(page, 'rules-json').waitFor({ state: 'attached' });
  await page.locator('details.part').evaluate((part) => { part.open = true; });
  for (const [rule, words] of [
    [{ approvers: 'treasurer' }, 'treasurer'], [{ when: [{ pointer: '/to', op: 'in', value: 'x' }] }, '/to is one of x'], [{ when: [null, 7] }, 'the arguments'],
    [{ approvers: { a: 1 }, expiresAfterMs: 'soon', reason: ['because'] }, 'because'], [{ id: { a: 1 }, tool: [], thread: 5, action: {} }, 'in 5'],
  ]) {
    await type([rule]);
    await at(page, 'policy').locator('td', { hasText: words }).first().waitFor();
  }
  await type([]);
  await at(page, 'no-rules').waitFor();
  await done(page);
});

for (const [what, file, name, hash, rest] of [
  ['a pane of the plan', 'views/record.js', 'Changes', '#/t/Changes/changes', ['head', 'side', 'tape']],
  ['a tab beside it', 'views/item.js', 'ItemTab', '#/t/ItemTab?tab=item&sel=bill', ['head', 'graph', 'timeline', 'tape']],
  ['a page', 'views/usage.js', 'Usage', '#/usage', ['palette', 'theme']],
]) {
  test(`${what} that fails while it is drawn is said in its place, and can be tried again`, async () => {
    await server.run(name, DINNER);
    const page = await open(server, '#/new');
    await at(page, 'query').waitFor();
    await page.route(`**/console/${file}`, (route) => route.fulfill({ contentType: 'text/javascript', body: `import { html } from '../vendor/preact-htm.js';
      export function ${name}() {
        if (!window.isMended) throw new Error('A list was expected.');
        return html\`<p data-testid="mended">Here.</p>\`;
      }` }));
    await page.evaluate((to) => { location.hash = to; }, hash);
    await at(page, 'failure').waitFor();
    assert.equal(await at(page, 'failure').getAttribute('data-code'), 'page_failed');
    assert.match(await at(page, 'failure').innerText(), /could not be shown[\s\S]*A list was expected\.[\s\S]*Try again/);
    for (const one of rest) assert.equal(await at(page, one).first().isVisible(), true, one);
    await at(page, 'try-again').click();
    await at(page, 'failure').waitFor();
    await page.evaluate(() => { window.isMended = true; });
    await at(page, 'try-again').click();
    await at(page, 'mended').waitFor();
    assert.equal(await at(page, 'failure').count(), 0);
    // It is shown where every error of a script is shown.
    assert.deepEqual(page.wrong.splice(0), Array(2).fill('error: A list was expected.'));
    await done(page);
  });
}
