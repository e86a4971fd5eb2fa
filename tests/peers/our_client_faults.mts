// The client in clients/typescript, installed from its package, against servers of this program that fail as a real one may.
// Ends with status 0; tests/it/our_clients/faults.rs runs it.

import assert from "node:assert/strict";
import { type IncomingMessage, createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { Pes, PesUnreachable } from "pes-client";

interface Asked {
  request: IncomingMessage;
  body: string;
}

/** A body, its content type and the status, or 200; `undefined` closes the connection without an answer. */
type Answer = (asked: Asked) => Promise<[body: string, type: string, status?: number] | undefined>;

/** Calls `use` with the URL of a server that answers one request on each connection. */
async function withServer(answer: Answer, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const said = await answer({ request, body });
    if (said === undefined) request.socket.destroy();
    else response.writeHead(said[2] ?? 200, { "content-type": said[1], "retry-after": "0", connection: "close" }).end(said[0]);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  try {
    await use(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/**
 * A WebSocket whose nth connection brings the nth frames and breaks then; the last one is closed with 1000. Where there is
 * `undefined` in place of frames, none is opened.
 */
function sockets(connections: (unknown[] | undefined)[]): typeof WebSocket {
  let begun = 0;
  class Scripted {
    onopen = () => {};
    onmessage = (_: { data: string }) => {};
    onclose = (_: { code: number }) => {};

    constructor() {
      const frames = connections[begun++];
      const code = begun < connections.length ? 1006 : 1000;
      setImmediate(() => {
        if (frames) this.onopen();
        for (const frame of frames ?? []) this.onmessage({ data: JSON.stringify(frame) });
        this.onclose({ code });
      });
    }

    close() {}
  }
  return Scripted as unknown as typeof WebSocket;
}

const UNAVAILABLE = JSON.stringify({ title: "Unavailable", status: 503, detail: "…", code: "store_unavailable", retryable: true });
const COMPACTED = JSON.stringify({ title: "Gone", status: 410, detail: "…", code: "history_compacted", retryable: false });
/** What an answer to `GET …/events` holds where that is all the same. */
const page: Answer = async () => ['{"items": [], "lastSeq": 9, "minSeq": 9}', "application/json"];
const observation = (seq: number, runId: string, type: string) => ({ event: "observation", data: { seq, runId, type } });
const run = (runId: string, status: string) => ({ event: "run", data: { runId, status } });
const token = (runId: string, offset: number, data: string) => ({
  event: "token", data: { runId, streamId: `stream of ${runId}`, tokenType: "PLANNING_LLM_RESPONSE", offset, data },
});

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

  async "tokens come once, whichever other run ends"() {
    const first = [observation(1, "b", "RUN_STARTED"), token("b", 0, "one two "), observation(2, "c", "RUN_FINISHED"), run("c", "cancelled")];
    const second = [token("b", 0, "one two three"), observation(3, "b", "RUN_FINISHED"), run("b", "completed")];
    await withServer(page, async (url) => {
      const said: [number, string][] = [];
      for await (const frame of new Pes({ url, WebSocket: sockets([first, second]) }).events("t", { until: "b" })) {
        if (frame.event === "token") said.push([frame.data.offset, frame.data.data]);
      }
      assert.deepEqual(said, [[0, "one two "], [8, "three"]]);
    });
  },

  async "whoever waits for runs keeps no other request waiting"() {
    const most = 101;
    let waiting = 0;
    let allWait = () => {};
    let end = () => {};
    const areWaiting = new Promise<void>((resolve) => (allWait = resolve));
    const isOver = new Promise<void>((resolve) => (end = resolve));
    const holds: Answer = async ({ request }) => {
      if (request.method === "GET") {
        if (++waiting === most) allWait();
        await isOver;
      }
      return ['{"runIds": [], "status": "completed"}', "application/json"];
    };
    await withServer(holds, async (url) => {
      const pes = new Pes(url);
      const runs = Array.from({ length: most }, (_, at) => pes.settled(`run_${at}`));
      await areWaiting;
      assert.deepEqual((await pes.cancel("t")).runIds, []);
      end();
      await Promise.all(runs);
    });
  },

  async "a refusal of a WebSocket that passes is waited out"() {
    let refused = 0;
    const refuse: Answer = async (asked) => {
      if (refused === 8) return page(asked);
      refused++;
      return [UNAVAILABLE, "application/problem+json", 503];
    };
    const end = [observation(1, "a", "RUN_FINISHED"), run("a", "completed")];
    await withServer(refuse, async (url) => {
      const frames = [];
      for await (const frame of new Pes({ url, WebSocket: sockets([undefined, end]) }).events("t", { until: "a" })) frames.push(frame);
      assert.deepEqual(frames, end);
    });
    assert.equal(refused, 8);
  },

  async "what cannot be sent is refused at once"() {
    const pes = new Pes({ url: "http://127.0.0.1:9", retryForMs: 0, fetch: async () => assert.fail("it is sent") });
    const question = { suspensionId: "sus_1" };
    await assert.rejects(pes.answer("t", question, 1n), TypeError);
    await assert.rejects(pes.answer("t", question, 1, { idempotencyKey: "\n€" }), TypeError);
    const wrong = ["127.0.0.1:7070", "localhost:7070", "", "ftp://127.0.0.1", "http://", "http://:7070", "http://127.0.0.1:70000"];
    for (const url of [...wrong, "http://127.0.0.1:7070?a=1", "http://127.0.0.1:7070?"]) {
      assert.throws(() => new Pes(url), (error) => error instanceof TypeError && error.message.endsWith(` not ${url}`));
    }
    const isTold = (error: unknown) => error instanceof TypeError && !error.message.includes("pes_a");
    assert.throws(() => new Pes({ url: "http://127.0.0.1:9", key: "pes_a\nb" }), isTold);
  },

  async "a key is sent as a file has it, and an empty one is none"() {
    const echo: Answer = async (asked) => [JSON.stringify(asked.request.headers.authorization ?? "none"), "application/json"];
    await withServer(echo, async (url) => {
      for (const [key, sent] of [["pes_a\n", "Bearer pes_a"], [" ", "none"], ["", "none"]] as const) {
        assert.equal(await new Pes({ url, key }).request("GET", "/whoami"), sent);
      }
      assert.equal(await new Pes(url).request("GET", "/whoami"), "none");
    });
  },

  async "whoever comes again behind a shortened log gets a gap"() {
    const shortened: Answer = async (asked) =>
      /after=latest|runs/.test(asked.request.url ?? "") ? page(asked) : [COMPACTED, "application/problem+json", 410];
    const rest = [{ event: "gap", data: { fromSeq: 9 } }, observation(9, "a", "RUN_FINISHED"), run("a", "completed")];
    await withServer(shortened, async (url) => {
      const frames = [];
      const pes = new Pes({ url, WebSocket: sockets([undefined, rest]) });
      for await (const frame of pes.events("t", { after: 3, until: "a" })) frames.push(frame);
      assert.deepEqual(frames, rest);
    });
  },

  async "whoever wants some types and was too slow lost none of them"() {
    const slow = [observation(3, "a", "PLAN"), { event: "gap", data: { fromSeq: 9 } }];
    const shortened = [{ event: "gap", data: { fromSeq: 20 } }, observation(21, "a", "PLAN")];
    const rest = [observation(30, "a", "RUN_FINISHED"), run("a", "completed")];
    await withServer(page, async (url) => {
      const frames = [];
      const pes = new Pes({ url, WebSocket: sockets([slow, shortened, rest]) });
      for await (const frame of pes.events("t", { types: ["PLAN", "RUN_FINISHED"], until: "a" })) frames.push(frame);
      assert.deepEqual(frames, [slow[0], ...shortened, ...rest]);
    });
  },

  async "whoever wants some types is told what was removed while they were read"() {
    const first = [observation(3, "a", "PLAN"), { event: "gap", data: { fromSeq: 9 } }, observation(21, "a", "PLAN")];
    const rest = [observation(30, "a", "RUN_FINISHED"), run("a", "completed")];
    await withServer(page, async (url) => {
      const frames = [];
      const pes = new Pes({ url, WebSocket: sockets([first, rest]) });
      for await (const frame of pes.events("t", { types: ["PLAN", "RUN_FINISHED"], until: "a" })) frames.push(frame);
      assert.deepEqual(frames, [...first, ...rest]);
    });
  },

  async "whoever has more than a restored log is told to begin anew"() {
    const again = [{ event: "gap", data: { fromSeq: 1 } }, observation(1, "a", "RUN_STARTED")];
    const rest = [observation(2, "a", "RUN_FINISHED"), run("a", "completed")];
    await withServer(page, async (url) => {
      const frames = [];
      const pes = new Pes({ url, WebSocket: sockets([again, rest]) });
      for await (const frame of pes.events("t", { after: 71, until: "a" })) frames.push(frame);
      assert.deepEqual(frames, [...again, ...rest]);
    });
  },

  async "text is passed through where it is asked for"() {
    const lines = '{"a": 1}\n';
    const exports: Answer = async ({ request, body }) => {
      if (request.method === "GET") return [lines, "application/x-ndjson"];
      return [JSON.stringify([body, request.headers["content-type"]]), "application/json; charset=utf-8"];
    };
    await withServer(exports, async (url) => {
      const pes = new Pes({ url, retryForMs: 0 });
      assert.equal(await pes.request("GET", "/threads/t/export"), lines);
      for (const [body, type, sent] of [
        [lines, "application/x-ndjson", lines],
        ["a", "application/json", '"a"'],
        [{ a: 1 }, "application/merge-patch+json", '{"a":1}'],
      ] as const) {
        assert.deepEqual(await pes.request("POST", "/imports", { body, headers: { "content-type": type } }), [sent, type]);
      }
    });
    const portal: Answer = async () => ["<p>Sign in</p>", "text/html"];
    await withServer(portal, (url) => assert.rejects(new Pes({ url, retryForMs: 0 }).process("t", "hello"), PesUnreachable));
  },

  async "whoever cannot be reached is told why, without the key"() {
    const key = "pes_secret";
    const said = async (url: string, fetch?: typeof globalThis.fetch) => {
      const told = await new Pes({ url, key, retryForMs: 0, ...(fetch && { fetch }) }).plan("t").catch((error: unknown) => error);
      assert.ok(told instanceof PesUnreachable);
      assert.ok(!told.message.includes(key), told.message);
      return told.message;
    };
    let closed = "";
    const repeat: Answer = async ({ request }) => [`You sent ${request.headers.authorization}`, "text/plain", 404];
    await withServer(repeat, async (url) => {
      assert.match(await said(url), /You sent Bearer …$/);
      assert.match(await said(url.replace("http:", "https:")), /wrong version number/);
      closed = url;
    });
    assert.match(await said(closed), /connect ECONNREFUSED 127\.0\.0\.1:\d+$/);
    // As Node says it of a host with two addresses, and of a certificate.
    const errors = [new Error("connect ECONNREFUSED ::1:9"), new Error("connect ECONNREFUSED 127.0.0.1:9")];
    const fails = (cause: unknown) => () => Promise.reject(new TypeError("fetch failed", { cause }));
    const both = await said("http://localhost:9", fails(Object.assign(new AggregateError(errors), { code: "ECONNREFUSED" })));
    assert.match(both, /: fetch failed: connect ECONNREFUSED ::1:9, connect ECONNREFUSED 127\.0\.0\.1:9$/);
    const signed = Object.assign(new Error(`self-signed certificate of ${key}`), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    assert.match(await said("https://localhost:9", fails(signed)), /self-signed certificate of … \(DEPTH_ZERO_SELF_SIGNED_CERT\)$/);
  },

  async "an address with a password is refused without showing it"() {
    for (const url of ["http://user:hidden@127.0.0.1:9", "http://hidden@127.0.0.1:9", "http://:hidden@127.0.0.1:9"]) {
      assert.throws(() => new Pes(url), (error) => error instanceof TypeError && !error.message.includes("hidden"));
    }
  },

  async "each header is sent once, in any case"() {
    const echo: Answer = async ({ request: { headersDistinct: sent } }) =>
      [JSON.stringify([sent.accept, sent["content-type"], sent["idempotency-key"] ?? []]), "application/json"];
    const headers = { Accept: "application/xml", "Content-Type": "application/json-patch+json", "Idempotency-Key": "mine" };
    await withServer(echo, async (url) => {
      const pes = new Pes(url);
      const said = await pes.request("PATCH", "/threads/t/plan", { body: [], headers, idempotencyKey: "yours" });
      assert.deepEqual(said, [["application/xml"], ["application/json-patch+json"], ["yours"]]);
      const plain = await pes.request("PATCH", "/threads/t/plan", { body: [] });
      assert.deepEqual(plain, [["application/json"], ["application/json"], []]);
    });
  },
};

for (const [name, story] of Object.entries(stories)) {
  await story();
  console.log(name);
}
