// The protocol's own client for its extension of tasks, against a server's tools: mcp_tasks.mjs URL
//
// @modelcontextprotocol/ext-tasks leaves it to its host to carry requests of version 2026-07-28: `dispatch` does so.
// Prints what fails, and ends with the number of checks.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';

const VERSION = '2026-07-28';
const endpoint = process.argv[2];

let checks = 0;
const failures = [];
const check = (what, holds, seen) => {
    checks += 1;
    if (!holds) failures.push(`${what}: ${JSON.stringify(seen)}`);
};

let sent = 0;
async function dispatch(request, options = {}) {
    const named = request.params.name ?? request.params.taskId;
    const headers = new Headers({
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': VERSION,
        'mcp-method': request.method,
        ...(named ? { 'mcp-name': named } : {})
    });
    // Of requests about a task it names the task itself.
    Object.entries(options.context?.headers ?? {}).forEach(([name, value]) => headers.set(name, value));
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++sent, ...request });
    const answer = await fetch(endpoint, { method: 'POST', headers, body, signal: options.signal });
    const text = await answer.text();
    const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream');
    const last = isStream ? text.split('\n').filter(line => line.startsWith('data: ')).at(-1).slice(6) : text;
    const { result, error } = JSON.parse(last);
    return error ? { kind: 'error', error } : { kind: 'result', result };
}

const clientInfo = { name: 'peer', version: '1' };
const capabilities = { elicitation: { form: {} } };

async function session(onInputRequest) {
    const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: 'auto' } });
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
    const v2RequestFraming = { protocolVersion: VERSION, clientInfo, clientCapabilities: capabilities };
    return createTaskSessionFromClient(client, { endpointId: 'pes', rawDispatch: dispatch, v2RequestFraming, onInputRequest });
}

const said = outcome => resultFromTaskOutcome(outcome).content[0].text;

const asked = [];
const first = await session(request => {
    asked.push(request.params.message);
    return { action: 'accept', content: { approved: true } };
});
const count = await first.callTool('ask', { query: 'count' });
check('ask becomes a task', count.kind === 'task', count.kind);
check('its result is that of the call', said((await count.settle()).outcome) === 'Two and two are four.');

const mail = await first.callTool('ask', { query: 'send' });
const { outcome } = await mail.settle();
check('a person was asked once', asked.length === 1 && asked[0].includes('demo_send_email'), asked);
check('what was asked is dealt with', said(outcome) === 'The mail is dealt with.', outcome);

const hanging = await first.callTool('ask', { query: 'hang' });
await hanging.cancel();
check('it is cancelled', (await hanging.settle()).outcome.status === 'cancelled');

const left = await first.callTool('ask', { query: 'count' });
const reference = left.serializeReference();
await left.detach();
const second = await session();
const resumed = await second.resumeTask(reference);
check('another session takes it up', said((await resumed.settle()).outcome) === 'Two and two are four.');
await second.close();
// Not before: the library cancels a task that has not ended when its session is closed.
await first.close();

console.log(failures.join('\n'));
console.log(`${checks - failures.length} passed, ${failures.length} failed`);
process.exit(failures.length ? 1 : 0);
