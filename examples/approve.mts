// Asks, shows what happens, and puts every question to the person at the terminal. With the client in clients/typescript:
//
//   (cd clients/typescript && npm install && npm run build) && cd examples
//   npm install ../clients/typescript typescript @types/node && npx tsc --module nodenext --target es2022 approve.mts
//   node approve.mjs "Send the team an invitation to the dinner."
//
// PES_URL names the server (http://127.0.0.1:7070), PES_TOKEN a key if it wants one, PES_THREAD the conversation.

import { createInterface } from "node:readline/promises";
import { Pes, PesError, type AskedQuestion } from "pes-client";

const { PES_URL: url = "http://127.0.0.1:7070", PES_TOKEN: key, PES_THREAD: thread = "example" } = process.env;
const pes = new Pes(key === undefined ? { url } : { url, key });

async function decide(question: AskedQuestion): Promise<void> {
  console.log(`\n? ${question.message}\n${JSON.stringify(question.toolInput ?? {}, null, 2)}`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const said = (await terminal.question("  approve? [y/N, or a reason against it] ")).trim();
  terminal.close();
  try {
    if (/^y(es)?$/i.test(said)) await pes.approve(thread, question);
    else await pes.reject(thread, question, said || "The user said no.");
  } catch (error) {
    // Another answer came first; the stream reports the decision.
    if (!(error instanceof PesError && error.code === "already_resolved")) throw error;
  }
}

const { runId } = await pes.process(thread, process.argv.slice(2).join(" "));
for await (const frame of pes.events(thread, { until: runId })) {
  if (frame.event === "token" && frame.data.tokenType === "SYNTHESIS_LLM_RESPONSE") process.stdout.write(frame.data.data);
  if (frame.event === "run" && frame.data.result) console.log(`\n= ${frame.data.status}`);
  // The stream begins with earlier runs of the thread.
  if (frame.event !== "observation" || frame.data.runId !== runId) continue;
  if (frame.data.type === "ITEM_STATUS_CHANGE") console.log(`- ${frame.data.title}`);
  if (frame.data.type === "AGENT_SUSPENDED") await decide(frame.data.content);
}
