// A remote agent's question is shown here, and the answer goes to the agent's own task. The agent is a separate server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, painted, serious, shot } from '../support/browser.mjs';
import { at, done, questionOf } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const agent = await serve({ script: 'cases.toml' });
const server = await serve({ script: 'cases.toml', env: { PES_EGRESS_ALLOW: '127.0.0.1' } });
await server.post('/agents', { id: 'consulate', card: `${agent.url}/.well-known/agent-card.json` });
await server.ask('PUT', '/policy', { rules: [{ id: 'visa', tool: 'delegate_to_agent', action: 'auto' }] });

test('what a remote agent asks is answered in the page, and its task goes on', async () => {
  await server.startRun('visa', 'Apply for the visa.');
  const asked = await server.until('visa', ({ type }) => type === 'AGENT_SUSPENDED');
  assert.equal(asked.content.kind, 'peer_input');
  const page = await open(server, '#/t/visa');
  await painted(page, asked.seq);
  const card = at(page, 'question');
  await card.waitFor();
  assert.equal(await card.getAttribute('data-kind'), 'peer_input');
  const words = await card.innerText();
  assert.match(words, /^consulate\b/, 'the name of the agent stands first');
  assert.match(words, /Which passport shall the visa go into\?/);
  assert.match(words, /the agent consulate/);
  await page.locator('[data-node=visa][data-status=ask]').waitFor();
  await page.locator('[role=treeitem][data-kind=task]').waitFor();
  await shot(page, 'state-peer-input-light');
  assert.deepEqual(await serious(page), []);
  const system = await open(server, '#/system');
  await at(system, 'section-agents').getByText(/\slast change: (now|\d+ s)$/).waitFor();
  await done(system);

  await at(page, 'answer-field').getByLabel('the new one').check();
  await at(page, 'question').locator('[data-testid=answer]').click();
  const { seq } = await server.runEnded('visa');
  await painted(page, seq);
  await page.waitForSelector('[data-testid=status][data-status=success]');
  // What the agent received, from its own log: a poll of its task, and the answer given here.
  const [theirs] = (await agent.get('/threads')).items;
  const answered = (await agent.log(theirs.threadId)).find(({ type }) => type === 'TOOL_EXECUTION');
  assert.equal(answered.content.output.answer ?? answered.content.output, 'the new one');
  assert.equal(await questionOf(agent, theirs.threadId), undefined);
  await done(page);
});

test('a question of an agent that is declined is told to it', async () => {
  const before = (await agent.get('/threads')).items.map(({ threadId }) => threadId);
  await server.startRun('declined', 'Apply for the visa.');
  const asked = await server.until('declined', ({ type }) => type === 'AGENT_SUSPENDED');
  const page = await open(server, `#/questions/${asked.content.suspensionId}`);
  await at(page, 'question').waitFor();
  await at(page, 'reason').fill('Neither of them.');
  await at(page, 'decline').click();
  const { content } = await server.until('declined', ({ type }) => type === 'AGENT_RESUMED');
  assert.equal(content.decision, 'rejected');
  await server.runEnded('declined');
  const theirs = (await agent.get('/threads')).items.find(({ threadId }) => !before.includes(threadId));
  assert.notEqual((await agent.get(`/threads/${theirs.threadId}`)).status, 'suspended');
  await done(page);
});
