// Questions are answered in the page: every kind, and every refusal of an answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { listen, serve } from '../support/setup.mjs';

const REFUND = {
  name: 'refund', description: 'Pays money back.', class: 'irreversible', idempotent: false,
  inputSchema: {
    type: 'object', required: ['orderId', 'amountEur'],
    properties: {
      orderId: { type: 'string' }, amountEur: { type: 'number', minimum: 0 }, to: { enum: ['original card', 'store credit'] }, reason: { type: 'string' },
      notifyCustomer: { type: 'boolean' }, tags: { type: 'array', items: { type: 'string' } }, address: { type: 'object', properties: { city: { type: 'string' } } },
    },
  },
};

let paid = [];
const shop = await listen((asked, answer) => {
  let text = '';
  asked.on('data', (part) => { text += part; });
  asked.on('end', () => {
    paid.push(JSON.parse(text));
    answer.setHeader('content-type', 'application/json');
    answer.end('{"receipt": 7}');
  });
});
const server = await serve({ script: 'people.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.post('/http-tools', { ...REFUND, url: `${shop.url}/refund` });

const over = (page) => page.waitForSelector('[data-testid=question][data-state=over]');

test('a call of high risk is approved by two presses, and the digest goes with the answer', async () => {
  await server.run('approve', INVITE);
  const page = await open(server, '#/t/approve');
  const card = at(page, 'question');
  await card.waitFor();
  assert.match(await card.innerText(), /Send the e-mail “Team dinner on Friday” to team@example.com\?/);
  const { digest } = await questionOf(server, 'approve');
  assert.equal((await at(page, 'digest').innerText()).replaceAll(' ', '').trim(), digest);
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'approve').click();
  assert.match(await at(page, 'approve').innerText(), /Press again:\s+demo_send_email/);
  await at(page, 'approve').click();
  const request = await sent;
  assert.equal(request.postDataJSON().digest, digest);
  assert.equal('modifiedArgs' in request.postDataJSON(), false);
  assert.ok(request.headers()['idempotency-key']);
  await over(page);
  await server.runEnded('approve');
  assert.match(await at(page, 'verdict').innerText(), /approved this|accepted/);
  await done(page);
});

test('a held key and a double click are one press', async () => {
  await server.run('hold', INVITE);
  const page = await open(server, '#/t/hold');
  let sent = 0;
  await page.route('**/resume', (route) => {
    sent += 1;
    return route.abort();
  });
  await at(page, 'approve').dblclick();
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  await page.reload();
  await at(page, 'approve').focus();
  await page.keyboard.down('Enter');
  await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  await page.locator('[data-testid=question] .q').click();
  await page.reload();
  await at(page, 'question').waitFor();
  await page.keyboard.down('a');
  await page.keyboard.down('a');
  await page.keyboard.up('a');
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  assert.equal(sent, 0);
  await done(page);
});

test('arguments with a number that a browser rounds are approved or rejected, not edited', async () => {
  await server.run('rounded', 'Pay the refund.');
  const question = await questionOf(server, 'rounded');
  const page = await open(server, '#/new');
  const items = JSON.stringify([{ ...question, toolInput: { ...question.toolInput, account: 'ACCOUNT' } }]).replace('"ACCOUNT"', '9007199254740993');
  await page.route(/\/suspensions\?/, (route) => route.fulfill({ contentType: 'application/json', body: `{"items": ${items}}` }));
  await page.goto(`${server.url}/#/questions/${question.suspensionId}`);
  await page.reload();
  await at(page, 'rounded-note').waitFor();
  assert.deepEqual([await at(page, 'edit').count(), await at(page, 'show-edit').count()], [0, 0]);
  await at(page, 'question').locator('.q').click();
  const sent = page.waitForRequest('**/resume');
  await page.keyboard.press('e');
  await page.keyboard.press('a');
  assert.equal('modifiedArgs' in (await sent).postDataJSON(), false);
  await server.runEnded('rounded');
  await done(page);
});

test('edited arguments say what they were, and run as they are on the card', async () => {
  paid = [];
  await server.run('edit', 'Pay the refund.');
  const page = await open(server, '#/t/edit');
  await at(page, 'edit').click();
  const amount = page.locator('[data-field="/amountEur"] input');
  await amount.fill('199x');
  assert.match(await page.locator('[data-field="/amountEur"]').innerText(), /not a number/);
  assert.equal(await at(page, 'approve').isDisabled(), true);
  await amount.fill('199.00');
  assert.match(await page.locator('[data-field="/amountEur"]').innerText(), /was 214\.5/);
  assert.match(await at(page, 'diff').innerText(), /"amountEur": 214\.5[\s\S]*"amountEur": 199/);
  assert.match(await at(page, 'approve').innerText(), /Approve with 199\.00/);
  await at(page, 'approve').click();
  await over(page);
  await server.runEnded('edit');
  assert.equal(paid.length, 1);
  assert.equal(paid[0].arguments?.amountEur ?? paid[0].amountEur, 199);
  const extra = paid[0].arguments?.extra ?? paid[0].extra;
  assert.deepEqual(extra, { '<b>': 'not in the schema' });
  await done(page);
});

test('a rejection needs its reason', async () => {
  await server.run('reject', INVITE);
  const page = await open(server, '#/t/reject');
  await at(page, 'reject').click();
  await at(page, 'needs-reason').waitFor();
  await at(page, 'reason').fill('Not this week.');
  await at(page, 'reject').click();
  await over(page);
  await server.runEnded('reject');
  const log = await server.log('reject');
  assert.equal(log.find((told) => told.type === 'AGENT_RESUMED').content.reason, 'Not this week.');
  await done(page);
});

test('of two who answer, the second is told who was first', async () => {
  await server.run('two', INVITE);
  const page = await open(server, '#/t/two');
  await at(page, 'question').waitFor();
  // The second answer is sent before the page knows of the first.
  await page.route('**/resume', async (route) => {
    const { suspensionId } = await questionOf(server, 'two');
    await server.resume('two', { suspensionId, approved: true });
    await route.continue();
  });
  await at(page, 'reason').fill('No.');
  await at(page, 'reject').click();
  await over(page);
  assert.match(await at(page, 'verdict').innerText(), /approved this/);
  await done(page);
});

test('a question that expires says what came of it', async () => {
  await server.ask('PUT', '/policy', { rules: [{ id: 'soon', thread: 'expiry', tool: 'demo_send_email', action: 'ask', expiresAfterMs: 8000, onExpiry: 'deny' }] });
  await server.startRun('expiry', INVITE);
  await server.until('expiry', (told) => told.type === 'AGENT_SUSPENDED');
  const page = await open(server, '#/t/expiry');
  await at(page, 'countdown').waitFor();
  assert.match(await at(page, 'countdown').innerText(), /\d left, then it is refused/);
  await at(page, 'reason').fill('Too late.');
  const { suspensionId } = await questionOf(server, 'expiry');
  await server.until('expiry', (told) => told.type === 'SUSPENSION_TIMEOUT' && told.content.suspensionId === suspensionId);
  await over(page);
  assert.match(await at(page, 'verdict').innerText(), /Nobody answered in time: it was refused/);
  await done(page);
});

test('an answer that did not arrive is sent again under the same key, another one under its own', async () => {
  await server.run('again', INVITE);
  const page = await open(server, '#/t/again');
  const keys = [];
  await page.route('**/resume', (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    return keys.length < 4 ? route.abort() : route.continue();
  });
  for (const [reason, times] of [['No.', 2], ['No, never.', 2]]) {
    await at(page, 'reason').fill(reason);
    for (let i = 0; i < times; i++) {
      const sent = page.waitForRequest('**/resume');
      await at(page, 'reject').click();
      await sent;
      await page.waitForSelector('[data-testid=answer-note][data-kind=again], [data-testid=question][data-state=over]');
    }
  }
  await over(page);
  await server.runEnded('again');
  assert.deepEqual([keys[0] === keys[1], keys[2] === keys[3], keys[1] === keys[2]], [true, true, false]);
  const resumed = (await server.log('again')).filter((told) => told.type === 'AGENT_RESUMED');
  assert.deepEqual(resumed.map(({ content }) => content.reason), ['No, never.']);
  await done(page);
});

for (const [name, act, expected] of [
  ['text', (page) => at(page, 'answer-field').fill('Friday at seven'), 'Friday at seven'],
  ['number', (page) => at(page, 'answer-field').fill('14'), 14],
  ['date', (page) => at(page, 'answer-field').fill('2026-12-04'), '2026-12-04'],
  ['choice', async (page) => { await page.getByLabel('two').check(); await page.getByLabel('blue').check(); }, [2, 'blue']],
  ['form', async (page) => { await page.getByLabel('city').fill('Oulu'); await page.getByLabel('floor').fill('3'); }, { city: 'Oulu', floor: 3 }],
]) {
  test(`a question for ${name} is answered with its type`, async () => {
    await server.run(`ask-${name}`, `Ask for ${name}.`);
    const page = await open(server, `#/t/ask-${name}`);
    await at(page, 'question').waitFor();
    await act(page);
    const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
    await at(page, 'answer').click();
    assert.deepEqual((await sent).postDataJSON().value, expected);
    await over(page);
    await server.runEnded(`ask-${name}`);
    await done(page);
  });
}

test('yes and no are two buttons', async () => {
  await server.run('ask-yes', 'Ask for yes.');
  const page = await open(server, '#/t/ask-yes');
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'no').click();
  assert.equal((await sent).postDataJSON().value, false);
  await over(page);
  await done(page);
});

test('a call of the caller’s own program can be given its result', async () => {
  const clientTools = [{ name: 'look_up', description: 'Looks up.', inputSchema: { type: 'object', properties: { customer: { type: 'string' } } } }];
  await server.run('client', 'Use my program.', { options: { clientTools } });
  const page = await open(server, '#/t/client');
  await at(page, 'result').fill('{"name": "Mara"}');
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'answer').click();
  assert.deepEqual((await sent).postDataJSON().value, { name: 'Mara' });
  await over(page);
  await done(page);
});

test('a spent budget is extended by what was typed', async () => {
  const options = { budget: { maxLlmCalls: 2 }, executionConfig: { onBudget: 'ask' } };
  await server.run('budget', INVITE, { options });
  const page = await open(server, '#/t/budget');
  // What is spent comes first.
  assert.equal(await at(page, 'question').locator('[data-field]').first().getAttribute('data-field'), '/maxLlmCalls');
  await page.getByLabel('model calls').fill('20');
  assert.match(await at(page, 'extend').innerText(), /Go on with this much more/);
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await at(page, 'extend').click();
  assert.deepEqual((await sent).postDataJSON().value, { maxLlmCalls: 20 });
  await page.waitForSelector('[data-kind=approval][data-state=open]');
  await done(page);
});

test('a plan is looked at before it runs, and another one can be asked for', async () => {
  await server.run('review', INVITE, { options: { executionConfig: { planReview: 'always' } } });
  const page = await open(server, '#/t/review');
  await at(page, 'review').waitFor();
  assert.match(await at(page, 'review').innerText(), /1 item will ask a person, 1 item can do what cannot be undone\. Nothing is denied\./);
  await at(page, 'another').click();
  await at(page, 'needs-reason').waitFor();
  await at(page, 'approve').click();
  await page.waitForSelector('[data-kind=approval][data-state=open]');
  await done(page);
});

test('a pause is ended by Continue', async () => {
  await server.run('pause', INVITE);
  await server.post('/threads/pause/pause', {});
  const { suspensionId } = await questionOf(server, 'pause', 'pause');
  const page = await open(server, `#/questions/${suspensionId}`);
  assert.match(await at(page, 'question').innerText(), /What is under way comes to its end; nothing new starts\./);
  await at(page, 'continue').click();
  await page.waitForFunction((id) => !document.querySelector(`[data-testid=question-row][data-id="${id}"]`), suspensionId);
  assert.equal(await questionOf(server, 'pause', 'pause'), undefined);
  await done(page);
});

test('long arguments are looked at whole before they are approved', async () => {
  await server.run('long', `Long arguments: ${'a\u202e<img src=x onerror=1>'.repeat(4_000)}`);
  const page = await open(server, '#/t/long');
  await at(page, 'args-held').waitFor();
  assert.equal(await at(page, 'approve').isDisabled(), true);
  assert.match(await at(page, 'why-not').innerText(), /look at all of them first/);
  await at(page, 'show-all').click();
  assert.equal(await at(page, 'approve').isDisabled(), false);
  assert.match(await at(page, 'hidden-note').innerText(), /4,000 hidden characters/);
  assert.equal((await at(page, 'args-read').innerText()).match(/U\+202E/g).length, 4_000);
  assert.doesNotMatch(await at(page, 'args-read').innerText(), /\u202e/);
  assert.equal(await page.locator('[data-testid=question] img').count(), 0);
  await done(page);
});

test('keys: e edits, x rejects, a approves; never in fields', async () => {
  await server.run('keys', INVITE);
  const page = await open(server, '#/t/keys');
  await at(page, 'question').waitFor();
  await page.keyboard.press('e');
  await at(page, 'args-edit').waitFor();
  await page.locator('[data-field="/subject"] input').press('a');
  assert.equal(await at(page, 'question').getAttribute('data-state'), 'open');
  assert.doesNotMatch(await at(page, 'approve').innerText(), /Press again/);
  await page.locator('[data-testid=question] .q').click();
  await page.keyboard.press('e');
  await page.keyboard.press('a');
  assert.match(await at(page, 'approve').innerText(), /Press again/);
  await page.keyboard.press('a');
  await over(page);
  await done(page);
});

test('two questions of a thread stand one after the other', async () => {
  await server.run('both', 'Ask twice.');
  const page = await open(server, '#/t/both');
  await page.locator('.side').getByText('2 questions', { exact: true }).waitFor();
  const first = await at(page, 'question').getAttribute('data-id');
  await page.keyboard.press('q');
  await page.waitForFunction((id) => document.querySelector('[data-testid=question]').dataset.id !== id, first);
  await done(page);
});

test('in the inbox the next question opens after an answer', async () => {
  const page = await open(server, '#/questions');
  await at(page, 'question-row').first().waitFor();
  const rows = at(page, 'question-row');
  const [first, second] = [await rows.nth(0).getAttribute('data-id'), await rows.nth(1).getAttribute('data-id')];
  await rows.nth(0).click();
  const reason = at(page, 'reason');
  if (await reason.count()) await reason.fill('Not now.');
  const no = page.locator('[data-testid=reject], [data-testid=decline], [data-testid=fail], [data-testid=stop], [data-testid=another]').first();
  await no.click();
  await page.waitForFunction((id) => document.querySelector('[data-testid=question]')?.dataset.id === id, second);
  await page.waitForFunction((id) => !document.querySelector(`[data-testid=question-row][data-id="${id}"]`), first);
  await done(page);
});

test('in the past nothing can be answered', async () => {
  await server.run('past', INVITE);
  const asked = (await server.log('past')).find((told) => told.type === 'AGENT_SUSPENDED');
  await server.resume('past', { suspensionId: asked.content.suspensionId, approved: false, reason: 'No.' });
  const page = await open(server, `#/t/past?at=${asked.seq}&tab=ask`);
  await at(page, 'question').waitFor();
  for (const name of ['approve', 'reject']) assert.equal(await at(page, name).isDisabled(), true);
  assert.match(await at(page, 'why-not').innerText(), /You look at the past/);
  await done(page);
});

test('on a narrow screen a question has the page for itself', async () => {
  await server.run('narrow', INVITE);
  const { suspensionId } = await questionOf(server, 'narrow');
  const page = await open(server, '#/questions', { width: 390, height: 844, hasTouch: true });
  const row = page.locator(`[data-testid=question-row][data-id="${suspensionId}"]`);
  await row.waitFor();
  assert.equal(await at(page, 'question').isVisible(), false);
  await row.click();
  await at(page, 'question').waitFor();
  assert.equal(await row.isVisible(), false);
  const { height } = await at(page, 'approve').boundingBox();
  assert.ok(height >= 40);
  await page.getByRole('link', { name: 'All questions' }).click();
  await row.waitFor();
  await done(page);
});

test('a question that has changed is shown anew, with what differs', async () => {
  await server.run('changed', INVITE);
  const asked = await questionOf(server, 'changed');
  const page = await open(server, '#/t/changed');
  await at(page, 'question').waitFor();
  const now = { ...asked, digest: 'f'.repeat(64), toolInput: { ...asked.toolInput, to: 'everybody@example.com' } };
  await page.route('**/suspensions?status=pending', (route) => route.fulfill({ contentType: 'application/json', body: JSON.stringify({ items: [now] }) }));
  await page.route('**/resume', (route) => route.fulfill({ status: 409, contentType: 'application/problem+json', body: JSON.stringify({
    title: 'Changed', status: 409, detail: 'The digest is not this question’s.', code: 'approval_mismatch', digest: now.digest, traceId: 'a', retryable: false }) }));
  await at(page, 'approve').click();
  await at(page, 'approve').click();
  await page.waitForSelector('[data-testid=answer-note][data-kind=other]');
  assert.match(await at(page, 'diff').innerText(), /"to": "team@example\.com"[\s\S]*"to": "everybody@example\.com"/);
  assert.match(await at(page, 'args-read').innerText(), /everybody@example\.com/);
  await page.unroute('**/resume');
  const sent = page.waitForRequest((one) => one.url().endsWith('/resume'));
  await page.route('**/resume', (route) => route.abort());
  await at(page, 'approve').click();
  await at(page, 'approve').click();
  assert.equal((await sent).postDataJSON().digest, now.digest);
  await done(page);
});
