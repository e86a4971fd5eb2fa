// The runs to record: each drives a server and returns the threads whose logs are kept.

import { DINNER, INVITE, MENU } from './demo.mjs';
import { startListener } from './listener.mjs';

const loopback = { PES_EGRESS_ALLOW: '127.0.0.1' };

async function open(server, thread) {
  const { items } = await server.get('/suspensions?limit=200');
  return items.find((one) => one.threadId === thread);
}

/** By name: what the server is started with, and what is done with it. */
export const CASES = {
  /** The three prompts of the demo, one approval among them. */
  demo: {
    async drive(server) {
      await server.run('demo', DINNER);
      await server.run('demo', INVITE);
      const { suspensionId, digest } = await open(server, 'demo');
      await server.resume('demo', { suspensionId, approved: true, digest });
      await server.run('demo', MENU);
      return ['demo'];
    },
  },

  /** A conversation that was held elsewhere goes on here. */
  brought: {
    async drive(server) {
      const history = [{ role: 'user', content: 'We are 14.' }, { role: 'assistant', content: 'Noted. '.repeat(100) }];
      await server.startRun('brought', DINNER, { history });
      await server.runEnded('brought');
      return ['brought'];
    },
  },

  /** A thread that goes back, to the middle and to its start. */
  back: {
    async drive(server) {
      const last = async () => (await server.get('/threads/back/messages')).items.at(-1).messageId;
      await server.run('back', DINNER);
      const after = await last();
      await server.run('back', MENU);
      await server.run('back', MENU, { after });
      await server.run('back', DINNER, { after: 'start' });
      return ['back'];
    },
  },

  /** An approval with other arguments, a refusal, one that nobody answers, and a fork in the middle that goes on. */
  answers: {
    async drive(server) {
      await server.run('edited', INVITE);
      const edited = await open(server, 'edited');
      await server.resume('edited', { suspensionId: edited.suspensionId, approved: true, modifiedArgs: { ...edited.toolInput, subject: 'Dinner' } });
      await server.run('refused', INVITE);
      const refused = await open(server, 'refused');
      await server.resume('refused', { suspensionId: refused.suspensionId, approved: false, reason: 'Not yet.' });
      const policy = { rules: [{ id: 'soon', tool: 'demo_send_email', action: 'ask', expiresAfterMs: 1000, onExpiry: 'deny' }] };
      await server.ask('PUT', '/policy', policy);
      await server.startRun('expired', INVITE);
      await server.runEnded('expired');
      await server.ask('POST', '/threads/edited/fork', { at: 20, threadId: 'forked' });
      await server.run('forked', INVITE);
      return ['edited', 'refused', 'expired', 'forked'];
    },
  },

  /** Models that fail, that retry, that change the plan, that ask. */
  models: {
    script: 'cases.toml',
    async drive(server) {
      await server.run('failed', 'Fail at once.');
      await server.run('retried', 'Fail, then work.');
      await server.run('changed', 'Change the plan on the way.');
      await server.run('asked', 'Ask me which passport.');
      const asked = await open(server, 'asked');
      await server.resume('asked', { suspensionId: asked.suspensionId, value: 'the new one' });
      await server.run('hostile', 'Be hostile.');
      return ['failed', 'retried', 'changed', 'asked', 'hostile'];
    },
  },

  /** A plan that a person changes while it runs; a message that steers it; the application's state; a cancel. */
  edits: {
    script: 'cases.toml',
    async drive(server) {
      await server.startRun('slow', 'Take your time.');
      await server.until('slow', (told) => told.type === 'LLM_STREAM_START' && told.parentId === 'first');
      const plan = await fetch(`${server.url}/threads/slow/plan`);
      const edit = [
        { op: 'replace', path: '/2/description', value: 'End at once' },
        { op: 'add', path: '/-', value: { id: 'last', description: 'Look back', dependencies: ['third'] } },
      ];
      const headers = { 'content-type': 'application/json-patch+json', 'if-match': plan.headers.get('etag') };
      await plan.json();
      await server.ask('PATCH', '/threads/slow/plan', edit, headers);
      await server.ask('PUT', '/threads/slow/agent-state', { data: { guests: 14, table: { number: 3 } } });
      await server.startRun('slow', 'Do it politely.', { onBusy: 'steer' });
      await server.post('/threads/slow/cancel', {});
      await server.runEnded('slow');
      return ['slow'];
    },
  },

  /** One item of a run that a person has done again, and one that is skipped. */
  byHand: {
    async drive(server) {
      await server.run('stepped', INVITE);
      const { lastSeq } = await server.get('/threads/stepped');
      await server.post('/threads/stepped/items/write/retry', {});
      await server.until('stepped', ({ type, content }) => type === 'ITEM_STATUS_CHANGE' && content.itemId === 'write' && content.status === 'completed', lastSeq);
      await server.post('/threads/stepped/items/send/skip', {});
      await server.runEnded('stepped');
      return ['stepped'];
    },
  },

  /** kill -9 while a model answers, and while a tool works that nobody may call twice. */
  killed: {
    script: 'cases.toml',
    env: loopback,
    async drive(server) {
      await server.startRun('again', DINNER);
      await server.until('again', (told) => told.type === 'LLM_STREAM_START' && told.parentId === 'tip');
      await server.restart();
      await server.runEnded('again');
      const bank = await bankThatKills(server);
      await server.post('/http-tools', {
        name: 'bank_transfer', description: 'Sends money.', url: bank.url, class: 'irreversible', idempotent: false,
        inputSchema: { type: 'object', properties: { iban: { type: 'string' }, amountEur: { type: 'number' }, note: { type: 'string' } }, required: ['iban', 'amountEur'] },
      });
      await server.ask('PUT', '/policy', { rules: [{ id: 'pay', tool: 'bank_transfer', action: 'auto' }] });
      await server.startRun('doubt', 'Send the transfer.');
      await bank.killed;
      await server.launch();
      const asked = await server.until('doubt', (told) => told.type === 'AGENT_SUSPENDED');
      await server.resume('doubt', { suspensionId: asked.content.suspensionId, action: 'done', value: { receipt: 7 } });
      bank.close();
      return ['again', 'doubt'];
    },
  },

  /** Work that another agent does: a server like this one. */
  delegated: {
    script: 'cases.toml',
    env: loopback,
    async drive(server, Server) {
      const helper = await Server.start({ script: 'cases.toml' });
      try {
        await server.post('/agents', { id: 'helper', card: `${helper.url}/.well-known/agent-card.json` });
        await server.ask('PUT', '/policy', { rules: [{ id: 'helper', tool: 'delegate_to_agent', action: 'auto' }] });
        await server.startRun('delegated', 'Ask the helper.');
        await server.runEnded('delegated');
      } finally {
        await helper.stop();
      }
      return ['delegated'];
    },
  },
};

/** A tool that takes the server down in the middle of its call. */
async function bankThatKills(server) {
  let told;
  const killed = new Promise((resolve) => {
    told = resolve;
  });
  const bank = await startListener((request) => {
    request.resume();
    server.kill().then(told);
  });
  return { url: `${bank.url}/transfer`, killed, close: bank.close };
}
