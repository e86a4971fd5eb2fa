// A chat as `useChat` holds it, without React: the AI SDK's own Chat over its own transport, against `/api/chat`.
//
//   node story.mjs VERSION BASE

import assert from 'node:assert/strict';

import { checkGolden, post as postTo, tell } from './stories.mjs';

const [version, base] = process.argv.slice(2);
const sdk = await import(`ai${version}`);
const {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls, uiMessageChunkSchema,
} = sdk;
const schema = typeof uiMessageChunkSchema === 'function' ? uiMessageChunkSchema() : uiMessageChunkSchema;

/** What React would keep. */
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  waiting = new Set();
  snapshot = (value) => structuredClone(value);
  constructor(messages) { this.messages = messages; }
  tell() { for (const look of [...this.waiting]) look(); }
  pushMessage = (message) => { this.messages = [...this.messages, message]; this.tell(); };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (at, message) => {
    this.messages = [...this.messages.slice(0, at), this.snapshot(message), ...this.messages.slice(at + 1)];
    this.tell();
  };
}

class Chat extends AbstractChat {
  constructor(id, { transport, ...options } = {}, messages = []) {
    const state = new State(messages);
    let status = state.status;
    Object.defineProperty(state, 'status', { get: () => status, set: (next) => { status = next; state.tell(); } });
    super({
      id,
      transport: new DefaultChatTransport({ api: `${base}/api/chat`, ...transport }),
      sendAutomaticallyWhen: (all) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(all) || lastAssistantMessageIsCompleteWithToolCalls(all),
      ...options,
      state,
    });
    this.kept = state;
  }

  /** Settles when `holds` does; every change is looked at. */
  until(holds) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`it does not come: ${JSON.stringify(this.messages)}`)), 30000);
      const look = () => {
        if (!holds(this)) return;
        clearTimeout(late);
        this.kept.waiting.delete(look);
        resolve();
      };
      this.kept.waiting.add(look);
      look();
    });
  }

  get last() { return this.messages[this.messages.length - 1]; }
  calls = (state) => this.last.parts.filter((part) => part.toolCallId && (!state || part.state === state));
  get text() { return this.last.parts.filter((part) => part.type === 'text').map((part) => part.text).join(''); }
}

const post = (path, body) => postTo(base + path, body);
const shown = async (id) => (await (await fetch(`${base}/api/chat/${id}`)).json()).messages;
const states = (messages) => messages.flatMap((message) =>
  message.parts.filter((part) => part.toolCallId).map((part) => `${part.toolCallId} ${part.state}`));

/** The page's copy and the server's agree. */
async function agrees(chat) {
  const stored = await shown(chat.id);
  const said = (messages) => messages.map((message) => [
    message.id, message.role, message.parts.filter((part) => part.type === 'text').map((part) => part.text).join(''),
  ]);
  assert.deepEqual(said(stored), said(chat.messages));
  assert.deepEqual(states(stored), states(chat.messages));
}

const stories = {
  async 'every chunk of every golden file fits the schema'() {
    await checkGolden('tests/golden/ai_sdk', async ({ chunk }) => (await schema.validate(chunk)).error);
  },

  async 'two turns'() {
    const chat = new Chat('turns');
    await chat.sendMessage({ text: 'count' });
    assert.equal(chat.status, 'ready', chat.error);
    assert.equal(chat.text, 'Two and two are four.');
    assert.equal(chat.calls('output-available')[0].toolName, 'calculator');
    const plan = chat.last.parts.find((part) => part.type === 'data-plan');
    assert.deepEqual(plan.data.todoList.map((item) => item.status), ['completed']);
    assert.equal(chat.last.metadata.runId, chat.last.id);
    assert.ok(chat.last.metadata.usage.totalTokens > 0);
    await chat.sendMessage({ text: 'hello' });
    assert.equal(chat.text, 'Hello again.');
    assert.equal(chat.messages.length, 4);
    await agrees(chat);
  },

  async 'an approval, after a reload'() {
    const first = new Chat('approve');
    await first.sendMessage({ text: 'send' });
    assert.equal(first.calls('approval-requested').length, 1);
    await agrees(first);
    const chat = new Chat('approve', {}, await shown('approve'));
    await chat.resumeStream();
    assert.equal(chat.status, 'ready', 'nothing is written while somebody is asked');
    await chat.addToolApprovalResponse({ id: chat.calls()[0].approval.id, approved: true });
    await chat.until(() => chat.status === 'ready' && chat.text);
    assert.equal(chat.text, 'The mail is dealt with.');
    assert.equal(chat.calls('output-available').length, 1);
    assert.deepEqual([chat.messages.length, chat.last.id], [2, first.last.id]);
    await agrees(chat);
  },

  async 'a refusal'() {
    const chat = new Chat('reject');
    await chat.sendMessage({ text: 'send' });
    await chat.addToolApprovalResponse({ id: chat.calls()[0].approval.id, approved: false, reason: 'not today' });
    await chat.until(() => chat.status === 'ready' && chat.text);
    assert.equal(chat.calls('output-denied').length, 1);
    await agrees(chat);
  },

  async 'two approvals, of which one is answered elsewhere'() {
    const chat = new Chat('both');
    await chat.sendMessage({ text: 'two mails' });
    const [first, second] = chat.calls('approval-requested');
    await post('/threads/both/resume', { suspensionId: first.approval.id, approved: true });
    await chat.addToolApprovalResponse({ id: first.approval.id, approved: true });
    assert.equal(chat.status, 'ready', 'the other one is open');
    await chat.addToolApprovalResponse({ id: second.approval.id, approved: true });
    await chat.until(() => chat.status === 'ready' && chat.text);
    assert.equal(chat.calls('output-available').length, 2);
    await agrees(chat);
  },

  async 'tools of the page'() {
    const asked = [];
    const tool = { name: 'get_location', description: 'Where.', inputSchema: { type: 'object' } };
    const chat = new Chat('tools', {
      transport: { body: { pes: { options: { clientTools: [tool] } } } },
      onToolCall: ({ toolCall }) => { asked.push(toolCall.toolName); },
    });
    await chat.sendMessage({ text: 'locate' });
    assert.deepEqual(asked, ['get_location', 'get_location']);
    await chat.addToolApprovalResponse({ id: chat.calls('approval-requested')[0].approval.id, approved: true });
    for (const call of chat.calls('input-available')) {
      await chat.addToolOutput({ tool: 'get_location', toolCallId: call.toolCallId, output: 'Rome' });
    }
    await chat.until(() => chat.status === 'ready' && chat.text);
    assert.equal(chat.text, 'You are here.');
    assert.deepEqual(asked, ['get_location', 'get_location']);
    await agrees(chat);
  },

  async 'a question to the user'() {
    const chat = new Chat('ask');
    await chat.sendMessage({ text: 'ask' });
    const [call] = chat.calls('input-available');
    assert.equal(call.type, 'tool-ask_user');
    await chat.addToolOutput({ tool: 'ask_user', toolCallId: call.toolCallId, output: 'blue' });
    await chat.until(() => chat.status === 'ready' && chat.text);
    assert.equal(chat.text, 'You were asked.');
    await agrees(chat);
  },

  async 'a stream that is cut is taken up, and cancelled'() {
    const chat = new Chat('resume');
    const sending = chat.sendMessage({ text: 'hang' });
    await chat.until(() => chat.last?.role === 'assistant');
    const id = chat.last.id;
    await chat.stop();
    await sending;
    const again = new Chat('resume', {}, await shown('resume'));
    const resumed = again.resumeStream();
    await again.until(() => again.last?.role === 'assistant');
    assert.equal(again.last.id, id);
    assert.equal((await post('/threads/resume/cancel', {})).status, 202);
    await resumed;
    assert.equal(again.messages.length, 2);
    await again.resumeStream();
    assert.equal(again.status, 'ready');
  },

  async 'another answer, and a message that was changed'() {
    const chat = new Chat('again');
    await chat.sendMessage({ text: 'count' });
    await chat.sendMessage({ text: 'hello' });
    const [first, second] = [chat.messages[1].id, chat.last.id];
    await chat.regenerate();
    assert.equal(chat.text, 'Hello again.');
    assert.notEqual(chat.last.id, second);
    assert.equal(chat.messages.length, 4);
    await agrees(chat);
    await chat.regenerate({ messageId: first });
    assert.equal(chat.text, 'Two and two are four.');
    assert.equal(chat.messages.length, 2);
    await agrees(chat);
    await chat.sendMessage({ text: 'hello', messageId: chat.messages[0].id });
    assert.equal(chat.text, 'Hello there.');
    assert.equal(chat.messages.length, 2);
    await agrees(chat);
    const hung = chat.sendMessage({ text: 'hang' });
    await chat.until(() => chat.messages.length === 4);
    await chat.stop();
    await hung;
    await chat.sendMessage({ text: 'hello', messageId: chat.messages[2].id });
    assert.equal(chat.text, 'Hello there.');
    assert.equal(chat.messages.length, 4);
    await agrees(chat);
  },

  async 'errors'() {
    const chat = new Chat('fails');
    await chat.sendMessage({ text: 'fail' });
    assert.equal(chat.status, 'error');
    assert.match(chat.error.message, /Not mine to do/);
    const refused = new Chat('no chat');
    await refused.sendMessage({ text: 'hello' });
    assert.equal(JSON.parse(refused.error.message).code, 'invalid');
    const stale = new Chat('approve', {}, await shown('approve'));
    stale.messages = stale.messages.map((message) => ({
      ...message, parts: message.parts.map((part) => (part.toolCallId ? { ...part, state: 'approval-responded' } : part)),
    }));
    await stale.sendMessage();
    assert.equal(JSON.parse(stale.error.message).code, 'already_resolved');
  },

  async 'eight at once'() {
    const chats = Array.from({ length: 8 }, (_, at) => new Chat(`many-${at}`));
    await Promise.all(chats.map((chat) => chat.sendMessage({ text: 'count' })));
    for (const chat of chats) assert.equal(chat.text, 'Two and two are four.');
  },
};

await tell(stories);
