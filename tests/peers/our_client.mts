// The client in clients/typescript, installed from its package, against a server whose wire breaks and whose process is killed.
// The server plays tests/it/support/script.toml. Ends with `done`; what it orders is in tests/it/our_clients/stories.rs.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { type AgentSuspendedObservation, type EventsPage, type LiveFrame, type Observation, Pes, PesError, PesUnreachable } from "pes-client";

const url = process.argv[2]!;
const pes = new Pes(url);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has something done to the wire or the server. */
async function order(what: string): Promise<string> {
  console.log(what);
  return String((await answers.next()).value);
}

function fails(code: string) {
  return (error: unknown) => error instanceof PesError && error.code === code;
}

/** The log as the server has it. */
async function log(thread: string): Promise<Observation[]> {
  const page = await pes.request<EventsPage>("GET", `/threads/${thread}/events`, { query: { limit: 1000 } });
  return page.items;
}

/** Everything up to the end of a run; each question is put to `decide`. */
async function follow(
  thread: string,
  until: string,
  decide: (question: AgentSuspendedObservation) => Promise<unknown> = async () => assert.fail("it asks"),
  look: (frame: LiveFrame) => Promise<unknown> = async () => {},
): Promise<Observation[]> {
  const seen: Observation[] = [];
  const said = new Map<string, number>();
  for await (const frame of pes.events(thread, { until })) {
    if (frame.event === "observation") seen.push(frame.data);
    if (frame.event === "token") {
      const { streamId, tokenType, offset, data } = frame.data;
      assert.equal(offset, said.get(streamId + tokenType) ?? 0, "no token comes twice");
      said.set(streamId + tokenType, offset + Buffer.byteLength(data));
    }
    await look(frame);
    if (frame.event === "observation" && frame.data.type === "AGENT_SUSPENDED") await decide(frame.data);
  }
  return seen;
}

/** Every observation of the log came, once and in its order. */
async function isWhole(thread: string, seen: Observation[]) {
  assert.deepEqual(seen, await log(thread));
  assert.deepEqual(seen.map((it) => it.seq), seen.map((_, at) => at + 1));
}

/** What each call of a tool came to: its status, or the code of its error. */
const outcomes = (seen: Observation[]) =>
  seen.flatMap((it) => (it.type === "TOOL_EXECUTION" ? [it.content.error?.code ?? it.content.status] : []));

const stories: Record<string, () => Promise<void>> = {
  async "two turns"() {
    for (const [query, text] of [["count", "Two and two are four."], ["hello", "Hello again."]] as const) {
      const { runId } = await pes.process("turns", query);
      const run = await pes.settled(runId);
      assert.equal(run.result?.response.content, text);
    }
    const roles: string[] = [];
    for await (const message of pes.messages("turns")) roles.push(message.role);
    assert.deepEqual(roles, ["USER", "AI", "USER", "AI"]);
  },

  async "an approval, a changed one, a rejection and an answer"() {
    for (const [thread, query, decide, outcome] of [
      ["approve", "send", (it: AgentSuspendedObservation) => pes.approve("approve", it.content), "success"],
      ["change", "send", (it: AgentSuspendedObservation) => pes.approve("change", it.content, {
        modifiedArgs: { to: "b@example.com", subject: "S", body: "B" }, reason: "the other one",
      }), "success"],
      ["reject", "send", (it: AgentSuspendedObservation) => pes.reject("reject", it.content, "not today"), "rejected"],
      ["answer", "ask", (it: AgentSuspendedObservation) => pes.answer("answer", it.content, "blue"), "success"],
    ] as const) {
      const { runId } = await pes.process(thread, { query });
      const seen = await follow(thread, runId, decide);
      assert.deepEqual(outcomes(seen), [outcome], thread);
      assert.equal((await pes.run(runId)).status, "completed");
      await isWhole(thread, seen);
    }
    assert.deepEqual((await pes.plan("approve")).map((item) => item.status), ["completed"]);
    assert.equal((await pes.state("approve")).isPaused, false);
  },

  async "refusals have a code"() {
    const { runId } = await pes.process("refusals", "send");
    await pes.settled(runId);
    const open = [];
    for await (const question of pes.questions("refusals")) open.push(question);
    assert.equal(open.length, 1);
    await assert.rejects(pes.approve("refusals", { ...open[0]!, digest: "0".repeat(64) }), fails("approval_mismatch"));
    await pes.reject("refusals", open[0]!);
    await assert.rejects(pes.approve("refusals", open[0]!), fails("already_resolved"));
    await assert.rejects(pes.events("nowhere").next(), fails("not_found"));
    await assert.rejects(pes.events("refusals", { until: "run_nowhere" }).next(), fails("not_found"));
    await assert.rejects(pes.events("refusals", { types: ["NOTHING" as "ERROR"] }).next(), fails("invalid"));
    for (const after of [-1, 0.5]) await assert.rejects(pes.events("refusals", { after }).next(), fails("invalid"));
    await assert.rejects(pes.process("refusals", { query: "hello", onBusy: "later" as "reject" }), fails("invalid"));
  },

  async "a cancelled run, and a reader that goes away"() {
    const { runId } = await pes.process("cancel", "hang");
    for await (const frame of pes.events("cancel")) if (frame.event === "token") break;
    const stop = new AbortController();
    const frames = pes.events("cancel", { after: "latest", tokens: false, signal: stop.signal });
    assert.equal((await frames.next()).value?.event, "caught_up");
    const reading = frames.next();
    stop.abort(new Error("enough"));
    await assert.rejects(reading, /enough/);
    assert.deepEqual((await pes.cancel("cancel")).runIds, [runId]);
    assert.equal((await pes.settled(runId)).status, "cancelled");
  },

  async "a wire that breaks at every place"() {
    await order("break 60");
    const { runId } = await pes.process("broken", "two mails");
    const seen = await follow("broken", runId, (it) => pes.approve("broken", it.content));
    const times = Number(await order("break 0"));
    assert.ok(times > 6, `it broke ${times} times`);
    await isWhole("broken", seen);
    assert.deepEqual(outcomes(seen), ["success", "success"]);
    assert.equal(seen.filter((it) => it.type === "RUN_STARTED").length, 1, "it was asked once");
  },

  async "a wire that breaks while a model speaks"() {
    const { runId } = await pes.process("breath", "hang");
    const waits = await pes.process("breath", { query: "hello", onBusy: "enqueue" });
    let said = "";
    let isBroken = false;
    const seen = await follow("breath", runId, undefined, async (frame) => {
      if (frame.event === "caught_up" && isBroken) await pes.cancel("breath");
      if (frame.event === "token") {
        said += frame.data.data;
        if (said === "one two three") await pes.request("POST", `/runs/${waits.runId}/cancel`, { idempotencyKey: "breath" });
      }
      if (frame.event !== "observation" || frame.data.type !== "RUN_FINISHED" || isBroken) return;
      assert.equal(frame.data.runId, waits.runId, "it ends while the other one speaks");
      isBroken = true;
      await order("break 0");
    });
    assert.equal(said, "one two three");
    await isWhole("breath", seen);
  },

  async "a server that says to come back"() {
    const keys: unknown[] = [];
    const problem = { type: "/docs", title: "Stopping", status: 503, detail: "…", instance: "/", code: "draining", traceId: "", retryable: true };
    const server = createServer((request, response) => {
      keys.push(request.headers["idempotency-key"]);
      if (keys.length === 2) response.writeHead(202).end('{"runId":"run_1"}');
      else response.writeHead(503, { "retry-after": "1" }).end(JSON.stringify(problem));
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const there = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    const begun = Date.now();
    assert.equal((await new Pes(there).process("later", "hello")).runId, "run_1");
    assert.ok(Date.now() - begun >= 990, "not before the server said");
    assert.ok(keys[0] && keys[0] === keys[1], "under the same key");
    await assert.rejects(new Pes({ url: there, retryForMs: 0 }).process("later", "hello"), fails("draining"));
    server.close();
    await assert.rejects(new Pes({ url: there, retryForMs: 0 }).process("later", "hello"), PesUnreachable);
  },

  async "kill -9 while a question is open"() {
    const { runId } = await pes.process("killed", "send");
    const seen = await follow("killed", runId, async (it) => {
      await order("kill");
      await pes.approve("killed", it.content);
    });
    await isWhole("killed", seen);
    assert.deepEqual(outcomes(seen), ["success"]);
  },

  async "kill -9 while a model speaks"() {
    const { runId } = await pes.process("speaking", "hang");
    const said = new Map<string, string>();
    const seen = await follow("speaking", runId, undefined, async (frame) => {
      if (frame.event !== "token") return;
      const { streamId, data } = frame.data;
      said.set(streamId, (said.get(streamId) ?? "") + data);
      if (said.get(streamId) === "one two three") await (said.size === 1 ? order("kill") : pes.cancel("speaking"));
    });
    assert.deepEqual([...said.values()], ["one two three", "one two three"]);
    await isWhole("speaking", seen);
    assert.ok(seen.some((it) => it.type === "LLM_STREAM_ERROR" && it.content.code === "interrupted"));
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
console.log("done");
process.exit(0);
