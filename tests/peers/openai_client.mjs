// OpenAI's own library for JavaScript (openai, npm) against a server: node story.mjs URL
//
// Turns, helpers that gather a stream, functions that the library calls itself, a rejection, a cut and what follows it, errors,
// eight at once. The server plays tests/it/support/script.toml. Ends with `done`.

import assert from 'node:assert/strict';
import OpenAI, { APIError, BadRequestError, ConflictError, NotFoundError } from 'openai';

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: 'none' });
const model = 'pes';
const say = (content) => [{ role: 'user', content }];
const location = {
  name: 'get_location',
  description: 'Where the user is.',
  parameters: { type: 'object', properties: { precision: { enum: ['city', 'street'] } } },
};
const all = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const numbers = (events) => events.map((event) => event.sequence_number);

const stories = {
  async 'models'() {
    const ids = (await all(client.models.list())).map((model) => model.id);
    assert.ok(ids.includes(model), ids);
    assert.equal((await client.models.retrieve(model)).id, model);
  },

  async 'chat, whole and streamed'() {
    for (let turn = 0; turn < 2; turn++) {
      const request = { model, messages: say('hello') };
      const answer = await client.chat.completions.create(request, { headers: { 'X-PES-Thread': 'talk' } });
      assert.equal(answer.choices[0].message.content, 'Hello there.');
      assert.ok(answer._request_id);
    }
    const request = { model, messages: say('count'), stream: true, stream_options: { include_usage: true } };
    const chunks = await all(await client.chat.completions.create(request));
    const text = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta.content ?? '')).join('');
    assert.equal(text, 'Two and two are four.');
    assert.ok(chunks.at(-1).usage.total_tokens > 0);
    const gathered = await client.chat.completions.stream({ model, messages: say('count') }).finalChatCompletion();
    assert.equal(gathered.choices[0].message.content, text);
  },

  async 'functions that the library calls itself'() {
    const called = [];
    const runner = client.chat.completions.runTools({
      model,
      messages: say('locate'),
      tools: [{ type: 'function', function: { ...location, parse: JSON.parse, function: (it) => { called.push(it.precision); return 'Rome'; } } }],
    });
    const question = await runner.finalContent();
    assert.deepEqual(called, ['city', 'street']);
    assert.match(question, /demo_send_email/);
  },

  async 'responses, one after another'() {
    const first = await client.responses.create({ model, input: 'count' });
    assert.equal(first.output_text, 'Two and two are four.');
    const second = await client.responses.create({ model, input: 'hello', previous_response_id: first.id });
    assert.equal(second.output_text, 'Hello again.');
    assert.equal((await client.responses.retrieve(second.id)).output_text, second.output_text);
    const final = await client.responses.stream({ model, input: 'count' }).finalResponse();
    assert.equal(final.output_text, first.output_text);
  },

  async 'a stream that is cut at every event'() {
    const live = await all(await client.responses.create({ model, input: 'count', stream: true, background: true }));
    assert.deepEqual(numbers(live), live.map((_, at) => at));
    assert.equal(live.at(-1).type, 'response.completed');
    const { id } = live[0].response;
    for (let cut = 0; cut < live.length; cut++) {
      const rest = await all(await client.responses.retrieve(id, { stream: true, starting_after: cut }));
      assert.deepEqual(rest, live.slice(cut + 1));
    }
    const helped = client.responses.stream({ response_id: id, starting_after: 3 });
    assert.deepEqual(numbers(await all(helped)), numbers(live.slice(4)));
  },

  async 'a stream that is cut while a model speaks'() {
    const begun = await client.responses.create({ model, input: 'hang', stream: true, background: true });
    const seen = [];
    for await (const event of begun) {
      seen.push(event);
      if (event.type === 'response.in_progress') begun.controller.abort();
    }
    const { id } = seen[0].response;
    const resumed = await client.responses.retrieve(id, { stream: true, starting_after: seen.at(-1).sequence_number });
    assert.equal((await client.responses.cancel(id)).status, 'cancelled');
    seen.push(...(await all(resumed)));
    assert.deepEqual(numbers(seen), seen.map((_, at) => at));
    assert.equal(seen.at(-1).response.status, 'cancelled');
  },

  async 'functions and a rejection'() {
    const pes = { type: 'mcp', server_label: 'pes', server_url: 'https://unused.example' };
    const tools = [{ type: 'function', strict: false, ...location }, pes];
    const asked = await client.responses.create({ model, input: 'locate', tools });
    const input = asked.output.flatMap((item) => {
      if (item.type === 'function_call') return [{ type: 'function_call_output', call_id: item.call_id, output: 'Rome' }];
      if (item.type !== 'mcp_approval_request') return [];
      return [{ type: 'mcp_approval_response', approval_request_id: item.id, approve: false, reason: 'late' }];
    });
    assert.equal(input.length, 3);
    const done = await client.responses.create({ model, input, previous_response_id: asked.id, tools });
    assert.equal(done.output_text, 'You are here.');
    assert.ok(done.output[0].error);
    const again = client.responses.create({ model, input, previous_response_id: asked.id, tools });
    await assert.rejects(again, (error) => error instanceof ConflictError && error.code === 'already_resolved');
  },

  async 'errors'() {
    for (const [call, kind, code] of [
      [() => client.chat.completions.create({ model: 'gpt-5', messages: [] }), NotFoundError, 'model_not_found'],
      [() => client.responses.create({ model, input: [] }), BadRequestError, 'invalid'],
      [() => client.responses.retrieve('resp_x_1'), NotFoundError, 'not_found'],
    ]) {
      await assert.rejects(call(), (error) => error instanceof kind && error.code === code && !!error.requestID);
    }
    const failing = await client.chat.completions.create({ model, messages: say('fail'), stream: true });
    await assert.rejects(all(failing), (error) => error instanceof APIError && error.code === 'task_refused');
    const failed = client.responses.create({ model, input: 'fail' });
    await assert.rejects(failed, (error) => error instanceof BadRequestError && error.code === 'task_refused');
  },

  async 'eight at once'() {
    const asked = Array.from({ length: 8 }, () => client.responses.create({ model, input: 'count' }));
    for (const { output_text } of await Promise.all(asked)) assert.equal(output_text, 'Two and two are four.');
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
