// States of a view that follow an action: axe finds nothing serious there either, light and dark.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, serious, shot } from '../support/browser.mjs';
import { INVITE } from '../support/demo.mjs';
import { KEYS } from '../support/keys.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'people.toml' });
const guarded = await serve({ env: KEYS });
const options = { clientTools: [{ name: 'look_up', description: 'Looks up.', inputSchema: { type: 'object' } }] };
await server.run('client', 'Use my program.', { options });
for (const kind of ['text', 'number', 'date', 'choice', 'yes', 'form']) await server.run(`ask-${kind}`, `Ask for ${kind}.`);
await server.run('mail', INVITE);
await server.run('budget', INVITE, { options: { budget: { maxLlmCalls: 1 }, executionConfig: { onBudget: 'ask' } } });
await server.run('review', INVITE, { options: { executionConfig: { planReview: 'always' } } });
await server.run('answer', 'Answer at length.');

const card = async (page) => at(page, 'question').waitFor();

const STATES = {
  'edited with a mistake': ['#/t/mail', async (page) => {
    await at(page, 'edit').click();
    await page.locator('[data-field="/subject"] input').fill('Other');
  }],
  'armed and without a reason': ['#/t/mail', async (page) => {
    await at(page, 'reject').click();
    await at(page, 'approve').click();
  }],
  'arguments as JSON': ['#/t/mail', (page) => at(page, 'show-json').click()],
  client: ['#/t/client', card], budget: ['#/t/budget', card], review: ['#/t/review', card], text: ['#/t/ask-text', card], number: ['#/t/ask-number', card],
  date: ['#/t/ask-date', card], choice: ['#/t/ask-choice', card], yes: ['#/t/ask-yes', card], form: ['#/t/ask-form', card],
  conversation: ['#/t/answer?tab=talk', (page) => at(page, 'answer').waitFor()],
  'edit with a mistake': ['#/t/mail/edit', async (page) => {
    await at(page, 'add-item').click();
    await page.locator('[data-testid=edit-tools]').last().fill('rm');
  }],
  'rules that are refused': ['#/policy', async (page) => {
    await at(page, 'rules-json').fill('[{"action": "sometimes"}]');
    await at(page, 'try-rules').click();
    await at(page, 'rules-refused').waitFor();
  }],
  'a key to be made': ['#/system', async (page) => {
    await at(page, 'make-key').click();
    await at(page, 'key-name').fill('x');
  }],
  'a thread to compare with': ['#/compare/mail', (page) => at(page, 'compare-pick').waitFor()],
  'answered questions': ['#/questions?show=answered', (page) => page.waitForFunction(() => !document.querySelector('[aria-busy=true]'))],
};

for (const [name, [hash, act]] of Object.entries(STATES)) {
  for (const dark of [false, true]) {
    test(`${name}, ${dark ? 'dark' : 'light'}`, async () => {
      const page = await open(server, hash, { dark });
      await act(page);
      await shot(page, `state-${name.replaceAll(' ', '-')}-${dark ? 'dark' : 'light'}`);
      assert.deepEqual(await serious(page), []);
      assert.deepEqual(page.wrong, []);
      await done(page);
    });
  }
}

test('sign-in, with a key that is refused', async () => {
  const page = await open(guarded, '#/policy');
  await at(page, 'key').fill('pes_wrong');
  await at(page, 'sign-in').click();
  await at(page, 'login-problem').waitFor();
  assert.deepEqual(await serious(page), []);
  await done(page);
});
