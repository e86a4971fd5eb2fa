// The AI SDK's provider for OpenAI (@ai-sdk/openai), over responses and over chat completions: node story.mjs VERSION URL
//
// VERSION is that of `ai` (6 with provider 3, 7 with provider 4). The server plays tests/it/support/script.toml. What the
// provider reads it checks with its own schemas: what does not fit is a part `error`. Ends with `done`.

import assert from 'node:assert/strict';

const [version, base] = process.argv.slice(2);
const { generateText, jsonSchema, Output, stepCountIs, streamText, tool, APICallError } = await import(`ai${version}`);
const { createOpenAI } = await import(`openai${{ 6: 3, 7: 4 }[version]}`);
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: 'none' });
const say = (content) => [{ role: 'user', content }];
const wires = { responses: openai('pes'), chat: openai.chat('pes') };

/** Every part of a stream, none of which may be an error. */
async function parts(result) {
  const seen = [];
  for await (const part of result.fullStream) {
    assert.notEqual(part.type, 'error', String(part.error));
    seen.push(part);
  }
  return seen;
}

const location = (called) => tool({
  description: 'Where the user is.',
  inputSchema: jsonSchema({ type: 'object', properties: { precision: { enum: ['city', 'street'] } } }),
  execute: async ({ precision }) => { called.push(precision); return 'Rome'; },
});
const pes = () => openai.tools.mcp({ serverLabel: 'pes', serverUrl: 'https://unused.example', requireApproval: 'always' });

const stories = {
  async 'streamText'() {
    for (const [name, model] of Object.entries(wires)) {
      const result = streamText({ model, messages: say('count') });
      const types = new Set((await parts(result)).map((part) => part.type));
      assert.equal(await result.text, 'Two and two are four.', name);
      assert.equal(await result.finishReason, 'stop', name);
      assert.ok((await result.usage).totalTokens > 0, name);
      if (name === 'responses') assert.ok(types.has('reasoning-delta') && types.has('tool-call') && types.has('tool-result'), [...types]);
    }
  },

  async 'two turns of one thread'() {
    const first = await generateText({ model: wires.responses, messages: say('count') });
    const messages = [...say('count'), ...first.response.messages, ...say('hello')];
    assert.equal((await generateText({ model: wires.responses, messages })).text, 'Hello again.');
    const named = createOpenAI({ baseURL: `${base}/v1`, apiKey: 'none', headers: { 'X-PES-Thread': `chat-${version}` } });
    for (const [text, answer] of [['count', 'Two and two are four.'], ['hello', 'Hello again.']]) {
      assert.equal((await generateText({ model: named.chat('pes'), messages: say(text) })).text, answer);
    }
  },

  async 'functions of the client over chat'() {
    const called = [];
    const tools = { get_location: location(called) };
    const result = streamText({ model: wires.chat, messages: say('locate'), tools, stopWhen: stepCountIs(3) });
    await parts(result);
    assert.deepEqual(called, ['city', 'street']);
    assert.match(await result.text, /demo_send_email/, 'the third call is a question');
  },

  async 'approvals over responses'() {
    for (const approved of [true, false]) {
      const tools = { mcp: pes() };
      const asked = await generateText({ model: wires.responses, messages: say('send'), tools });
      const request = asked.content.find((part) => part.type === 'tool-approval-request');
      assert.ok(request, JSON.stringify(asked.content));
      const answer = { type: 'tool-approval-response', approvalId: request.approvalId, approved, providerExecuted: true };
      const messages = [...say('send'), ...asked.response.messages, { role: 'tool', content: [answer] }];
      const done = await generateText({ model: wires.responses, messages, tools });
      assert.equal(done.text, 'The mail is dealt with.');
      const { output } = done.content.find((part) => part.type === 'tool-result');
      assert.equal(output.error === undefined || output.error === null, approved, JSON.stringify(output));
    }
  },

  async 'answers as JSON'() {
    const city = { type: 'string' };
    const schema = jsonSchema({ type: 'object', properties: { city }, required: ['city'], additionalProperties: false });
    for (const [name, model] of Object.entries(wires)) {
      const { output } = await generateText({ model, messages: say('where'), output: Output.object({ schema }) });
      assert.deepEqual(output, { city: 'Rome' }, name);
      const streamed = streamText({ model, messages: say('where'), output: Output.object({ schema }) });
      assert.deepEqual(await streamed.output, { city: 'Rome' }, name);
    }
  },

  async 'what is refused'() {
    const unknown = generateText({ model: openai('gpt-5'), messages: say('hello'), maxRetries: 0 });
    await assert.rejects(unknown, (error) => APICallError.isInstance(error) && error.statusCode === 404);
    for (const model of Object.values(wires)) {
      const failing = streamText({ model, messages: say('fail'), maxRetries: 0, onError() {} });
      const seen = [];
      for await (const part of failing.fullStream) seen.push(part.type);
      assert.ok(seen.includes('error') || (await failing.finishReason) === 'error', seen);
    }
  },

  async 'eight at once'() {
    const asked = Array.from({ length: 8 }, () => generateText({ model: wires.responses, messages: say('count') }));
    for (const { text } of await Promise.all(asked)) assert.equal(text, 'Two and two are four.');
  },
};

for (const [name, story] of Object.entries(stories)) {
  try {
    await story();
  } catch (error) {
    console.error(`${name}:`, error);
    process.exit(1);
  }
}
console.log('done');
