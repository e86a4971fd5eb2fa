// The protocol's client libraries for JavaScript against a server's tools: mcp_client.mjs URL
//
// @modelcontextprotocol/sdk, which begins with `initialize`, and @modelcontextprotocol/client in both ways of beginning.
// Prints what fails, and ends with the number of checks.

import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

let checks = 0;
const failures = [];
const check = (where, what, holds, seen) => {
    checks += 1;
    if (!holds) failures.push(`${where}: ${what}: ${JSON.stringify(seen)}`);
};

const said = result => result.content[0].text;

async function scene(where, client, call) {
    const tools = (await client.listTools()).tools.map(tool => tool.name);
    check(where, 'all tools are listed', tools.join() === 'ask,start,status,cancel,answer', tools);

    const answer = await call('ask', { query: 'count' });
    check(where, 'ask is answered', said(answer) === 'Two and two are four.', answer);
    check(where, 'with data', answer.structuredContent.status === 'completed', answer);
    const second = await call('ask', { query: 'hello', thread: answer.structuredContent.threadId });
    check(where, 'a second turn goes on', said(second) === 'Hello again.', second);

    const told = [];
    const stuck = await call('ask', { query: 'stuck', wait: 2 }, { onprogress: progress => told.push(progress) });
    check(where, 'what takes long goes on', stuck.structuredContent.status === 'running', stuck);
    const last = told.at(-1);
    check(where, 'progress was told', last?.total === 4 && last.message === 'Think for ever', told);
    const run = { runId: stuck.structuredContent.runId };
    const status = await call('status', run);
    check(where, 'status has the plan', status.structuredContent.plan.length === 3, status);
    const cancelled = await call('cancel', run);
    check(where, 'cancel stops it', cancelled.structuredContent.status === 'cancelled', cancelled);

    const wrong = await call('status', { runId: 'run_x' });
    check(where, 'an unknown run is an error of the tool', wrong.isError && said(wrong).includes('no such run'), wrong);
    const eight = await Promise.all(Array.from({ length: 8 }, () => call('ask', { query: 'count' })));
    check(where, 'eight at once', eight.every(one => said(one) === 'Two and two are four.'), eight);
}

async function handedOver(where, call) {
    const mail = await call('ask', { query: 'send' });
    check(where, 'an older client is told', mail.structuredContent.status === 'suspended', mail);
    const { suspensionId, digest } = mail.structuredContent.suspensions[0];
    const decision = { suspensionId, digest, approved: true };
    await call('answer', decision);
    const ended = await call('status', { runId: mail.structuredContent.runId, wait: 30 });
    check(where, 'what was asked is dealt with', said(ended) === 'The mail is dealt with.', ended);
    check(where, 'twice is told', (await call('answer', decision)).isError);
}

async function old(url) {
    const client = new OldClient({ name: 'peer', version: '1' });
    await client.connect(new OldTransport(new URL(url)));
    const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
    await scene('sdk', client, call);
    await handedOver('sdk', call);
    await client.close();
}

async function current(url, mode) {
    const where = `client ${JSON.stringify(mode)}`;
    const client = new Client(
        { name: 'peer', version: '1' },
        { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } }
    );
    const asked = [];
    client.setRequestHandler('elicitation/create', async request => {
        asked.push(request.params.message);
        return { action: 'accept', content: { approved: true } };
    });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
    await scene(where, client, call);
    if (mode === 'legacy') {
        await handedOver(where, call);
    } else {
        const mail = await call('ask', { query: 'send' });
        check(where, 'the person was asked once', asked.length === 1 && asked[0].includes('demo_send_email'), asked);
        check(where, 'what was asked is dealt with', said(mail) === 'The mail is dealt with.', mail);
    }
    await client.close();
}

const url = process.argv[2];
await old(url);
await current(url, 'legacy');
await current(url, 'auto');
console.log(failures.join('\n'));
console.log(`${checks - failures.length} passed, ${failures.length} failed`);
process.exit(failures.length ? 1 : 0);
