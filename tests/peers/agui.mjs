// A front end of AG-UI without a page: its own HttpAgent, which checks every event, against `/agui`.
//
//   node story.mjs VERSION BASE      (0: client 0.0.59, 1: client 1.0.0)

import assert from 'node:assert/strict';

import { checkGolden, tell } from './stories.mjs';

const [version, base] = process.argv.slice(2);
const { HttpAgent } = await import(`agui${version}`);
const schema = version === '1' ? (await import('core1/schemas')).EventSchema : (await import('core0')).EventSchemas;

class Agent extends HttpAgent {
  constructor(threadId, messages = []) {
    super({ url: `${base}/agui`, threadId, initialMessages: messages });
  }

  /** Runs once: every event, and how it ended. */
  async say(input = {}) {
    const events = [];
    const subscriber = { onEvent: ({ event }) => { events.push(event); } };
    let failed;
    try {
      await this.runAgent(input, subscriber);
    } catch (error) {
      failed = error;
    }
    for (const event of events) {
      const checked = schema.safeParse(event);
      assert.ok(checked.success, `${JSON.stringify(event)}: ${checked.error}`);
    }
    const last = events[events.length - 1];
    return { events, last, failed, all: (type) => events.filter((event) => event.type === type) };
  }

  ask(text, input) {
    this.addMessage({ id: `mine-${this.messages.length}`, role: 'user', content: text });
    return this.say(input);
  }

  get text() {
    const said = this.messages.filter((message) => message.role === 'assistant' && message.content);
    return said[said.length - 1]?.content;
  }
}

const stories = {
  async 'every event of every golden file fits the schema'() {
    await checkGolden(`tests/golden/agui/${version}`, (event) => schema.safeParse(event).error);
  },

  async 'two turns'() {
    const agent = new Agent('turns');
    const first = await agent.ask('count');
    assert.equal(first.failed, undefined);
    assert.equal(agent.text, 'Two and two are four.');
    assert.deepEqual(agent.state.todoList.map((item) => item.status), ['completed']);
    assert.equal(agent.state.title, 'Count');
    assert.equal(first.last.type, 'RUN_FINISHED');
    assert.ok(first.last.usage[0].totalTokens > 0);
    assert.equal(first.last.result.content, agent.text);
    assert.ok(agent.messages.some((message) => message.role === 'tool' && /4/.test(message.content)));
    assert.ok(agent.messages.some((message) => message.role === 'activity' && message.activityType === 'PLAN'));
    await agent.ask('hello');
    assert.equal(agent.text, 'Hello again.');
  },

  async 'an approval'() {
    const agent = new Agent('approve');
    const asked = await agent.ask('send');
    assert.equal(asked.last.outcome.type, 'interrupt');
    const [interrupt] = asked.last.outcome.interrupts;
    assert.equal(interrupt.reason, 'tool_call');
    const done = await agent.say({ resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { approved: true } }] });
    assert.equal(done.failed, undefined);
    assert.equal(agent.text, 'The mail is dealt with.');
    assert.equal(done.all('TOOL_CALL_RESULT')[0].toolCallId, interrupt.toolCallId);
    assert.equal(done.all('TOOL_CALL_START').length, 0);
  },

  async 'an interrupt in a conversation moves nothing in it'() {
    const agent = new Agent('moves');
    await agent.ask('hello');
    const own = (messages) => messages.filter((message) => !['activity', 'reasoning'].includes(message.role))
      .map((message) => [message.id, message.role, message.content || undefined]);
    let before;
    const subscriber = { onMessagesSnapshotEvent: ({ messages }) => { before = own(messages); } };
    agent.subscribe(subscriber);
    const asked = await agent.ask('send');
    assert.equal(asked.last.outcome.type, 'interrupt');
    assert.equal(before.length, 4, JSON.stringify(before));
    assert.deepEqual(own(agent.messages), before);
  },

  async 'a refusal'() {
    const agent = new Agent('reject');
    const [interrupt] = (await agent.ask('send')).last.outcome.interrupts;
    const done = await agent.say({ resume: [{ interruptId: interrupt.id, status: 'cancelled' }] });
    assert.match(done.all('TOOL_CALL_RESULT')[0].content, /rejected/);
    assert.equal(agent.text, 'The mail is dealt with.');
  },

  async 'tools of the page'() {
    const tools = [{ name: 'get_location', description: 'Where.', parameters: { type: 'object' } }];
    const agent = new Agent('tools');
    const asked = await agent.ask('locate', { tools });
    assert.equal(asked.last.outcome.type, 'interrupt');
    const resume = asked.last.outcome.interrupts.map((interrupt) => ({
      interruptId: interrupt.id,
      status: 'resolved',
      payload: interrupt.responseSchema.required[0] === 'approved' ? { approved: true } : { value: 'Rome' },
    }));
    const done = await agent.say({ tools, resume });
    assert.equal(done.failed, undefined);
    assert.equal(agent.text, 'You are here.');
  },

  async 'a failure'() {
    const agent = new Agent('fails');
    const failed = await agent.ask('fail');
    assert.equal(failed.last.type, 'RUN_ERROR');
    assert.match(failed.last.message, /Not mine to do/);
  },

  async 'eight at once'() {
    const agents = Array.from({ length: 8 }, (_, at) => new Agent(`many-${at}`));
    await Promise.all(agents.map((agent) => agent.ask('count')));
    for (const agent of agents) assert.equal(agent.text, 'Two and two are four.');
  },
};

await tell(stories);
