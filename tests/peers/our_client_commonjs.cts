// The client in clients/typescript, installed from its package, in a CommonJS program, against a server of this program.
// Ends with status 0; tests/it/our_clients/faults.rs runs it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { Pes, PesError, type ObservationType, type PesOptions, type Receipt } from "pes-client";

const wanted: ObservationType[] = ["PLAN"];
const refusal = { title: "Not found", status: 404, detail: "…", code: "thread_not_found", retryable: false };

async function main(url: string): Promise<void> {
  const options: PesOptions = { url, retryForMs: 0 };
  const receipt: Receipt = await new Pes(options).process("t", "hello");
  assert.equal(receipt.runId, "run_1");
  await assert.rejects(new Pes(options).events("t", { after: "latest", types: wanted }).next(), PesError);
}

const server = createServer((request, response) => {
  const said = request.method === "POST" ? { runId: "run_1" } : refusal;
  const type = request.method === "POST" ? "application/json" : "application/problem+json";
  response.writeHead(said === refusal ? 404 : 202, { "content-type": type, connection: "close" }).end(JSON.stringify(said));
});
server.listen(0, "127.0.0.1", async () => {
  assert.match(require.resolve("pes-client"), /[\\/]cjs[\\/]index\.js$/);
  await main(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
  server.close();
});
