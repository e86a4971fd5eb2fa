// The client in clients/typescript, installed from its package, against servers of this program that fail as a real one may.
// Ends with status 0; tests/it/our_clients/faults.rs runs it.

import assert from "node:assert/strict";
import { type IncomingMessage, createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { Pes } from "pes-client";

interface Asked {
  request: IncomingMessage;
  body: string;
}

/** The body of a 200 and its content type; `undefined` closes the connection without an answer. */
type Answer = (asked: Asked) => Promise<[body: string, type: string] | undefined>;

/** Calls `use` with the URL of a server that answers one request on each connection. */
async function withServer(answer: Answer, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const said = await answer({ request, body });
    if (said === undefined) request.socket.destroy();
    else response.writeHead(200, { "content-type": said[1], connection: "close" }).end(said[0]);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  try {
    await use(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const stories: Record<string, () => Promise<void>> = {
  async "the query of a path is sent"() {
    const echo: Answer = async ({ request }) => [JSON.stringify(`${request.method} ${request.url}`), "application/json"];
    await withServer(echo, async (url) => {
      const pes = new Pes(url);
      assert.equal(await pes.request("PUT", "/limits?tenant=acme", { body: {} }), "PUT /limits?tenant=acme");
      assert.equal(await pes.request("GET", "/models?check=true", { query: { tenant: undefined } }), "GET /models?check=true");
      const both = await pes.request("GET", "/runs?status=failed&limit=1", { query: { limit: 5 } });
      assert.equal(both, "GET /runs?status=failed&limit=5");
    });
  },

  async "a failure later than retryForMs is repeated"() {
    const retryForMs = 500;
    let attempts = 0;
    const failsLate: Answer = async () => {
      attempts++;
      if (attempts > 1) return ['{"runId": "run_1", "status": "completed"}', "application/json"];
      await setTimeout(retryForMs + 100);
      return undefined;
    };
    await withServer(failsLate, async (url) => {
      assert.equal((await new Pes({ url, retryForMs }).settled("run_1")).status, "completed");
    });
    assert.equal(attempts, 2);
  },
};

for (const [name, story] of Object.entries(stories)) {
  await story();
  console.log(name);
}
