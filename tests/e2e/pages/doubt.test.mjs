// A call in doubt: the server was killed in the middle of it, and a person states what happened.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted } from '../support/browser.mjs';
import { at, done } from '../support/people.mjs';
import { listen, serve } from '../support/setup.mjs';

let asked = 0;
/** What the bank does with a call. */
let onCall;

const bank = await listen((request, answer) => {
  asked += 1;
  request.resume();
  onCall(answer);
});
const server = await serve({ script: 'cases.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.post('/http-tools', {
  name: 'bank_transfer', description: 'Sends money.', class: 'irreversible', idempotent: false, url: `${bank.url}/transfer`,
  inputSchema: { type: 'object', properties: { iban: { type: 'string' }, amountEur: { type: 'number' }, note: { type: 'string' } } },
});
await server.ask('PUT', '/policy', { rules: [{ id: 'pay', tool: 'bank_transfer', action: 'auto' }] });

/** A run that is killed while the bank has its call, and the page of it before and after. */
async function doubted(thread) {
  const killed = new Promise((resolve) => {
    onCall = () => server.kill().then(resolve);
  });
  await server.startRun(thread, 'Send the transfer.');
  await killed;
  await server.launch();
  const told = await server.until(thread, (one) => one.type === 'AGENT_SUSPENDED');
  const page = await open(server, `#/t/${thread}`);
  await painted(page, told.seq);
  return page;
}

test('the card says what happened, and asks what is true', async () => {
  const page = await doubted('skipped');
  assert.equal(await at(page, 'question').getAttribute('data-kind'), 'in_doubt');
  assert.match(await at(page, 'question').innerText(), /It was not repeated[\s\S]*FI21 1234 5600 0007 85/);
  const before = asked;
  // Elsewhere single keys open views; here none of them answers the question.
  for (const key of ['r', 'd', 's', 'x']) await page.keyboard.press(key);
  await at(page, 'reason').fill('It was sent twice before.');
  await at(page, 'skip').click();
  await page.waitForSelector('[data-testid=question][data-state=over]');
  await server.runEnded('skipped');
  assert.equal(asked, before);
  await done(page);
});

test('a call that was done is given its result, and is not made again', async () => {
  const page = await doubted('done');
  const before = asked;
  await at(page, 'question').locator('[data-testid=done]').click();
  await at(page, 'result').fill('{"receipt": 7}');
  await at(page, 'question').locator('[data-testid=done]').click();
  await page.waitForSelector('[data-testid=question][data-state=over]');
  await server.runEnded('done');
  const ended = (await server.log('done')).find((told) => told.type === 'TOOL_EXECUTION');
  assert.deepEqual([ended.content.status, ended.content.output], ['success', { receipt: 7 }]);
  assert.equal(asked, before);
  await done(page);
});

test('a call that was not done is made again, once', async () => {
  const page = await doubted('again');
  const before = asked;
  onCall = (answer) => {
    answer.setHeader('content-type', 'application/json');
    answer.end('{"receipt": 8}');
  };
  await at(page, 'retry').click();
  await page.waitForSelector('[data-testid=question][data-state=over]');
  await server.runEnded('again');
  assert.equal(asked, before + 1);
  await done(page);
});

test('a call without an answer is in doubt too, and no stop of the server is blamed for it', async () => {
  onCall = (answer) => answer.destroy();
  await server.run('unanswered', 'Send the transfer.');
  const page = await open(server, '#/t/unanswered');
  await at(page, 'question').waitFor();
  assert.equal(await at(page, 'question').getAttribute('data-kind'), 'in_doubt');
  const words = await at(page, 'question').innerText();
  assert.match(words, /The call was handed over, and what came of it is not known\. It was not repeated/);
  assert.doesNotMatch(words, /stopped/);
  await done(page);
});
