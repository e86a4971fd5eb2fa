// A client in TypeScript, as openapi-typescript and openapi-fetch make it of tests/openapi.json: it asks, is asked, answers,
// and reads what came of it. What does not fit the document does not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Receipt = components["schemas"]["Receipt"];
type Finished = components["schemas"]["Finished"];

const api = createClient<paths>({ baseUrl: process.argv[2] });

function check(what: string, holds: boolean, seen: unknown): asserts holds {
  if (!holds) throw new Error(`${what}: ${JSON.stringify(seen)}`);
}

async function main() {
  const path = { thread: "story" };
  const wait = { Prefer: "wait=30" };
  const made = await api.POST("/threads", { body: { threadId: "story", metadata: { by: "ts" } } });
  check("a thread", made.data?.threadId === "story", made);

  const asked = await api.POST("/threads/{thread}/process", { params: { path, header: wait }, body: { query: "send" } });
  const receipt = asked.data as Receipt;
  const question = receipt.suspensions?.[0];
  check("a question", receipt.status === "suspended" && question?.kind === "approval", asked);

  const state = await api.GET("/threads/{thread}/state", { params: { path } });
  check("the state", state.data?.isPaused === true && state.data.todoList[0].status === "in_progress", state);
  const inbox = await api.GET("/suspensions", { params: { query: { limit: 1000 } } });
  check("the inbox", inbox.data?.items[0].suspensionId === question.suspensionId, inbox);

  const done = await api.POST("/threads/{thread}/resume", {
    params: { path, header: wait },
    body: { suspensionId: question.suspensionId, approved: true },
  });
  const finished = done.data as Finished;
  check("the result", "response" in finished && finished.metadata.status === "success", done);

  const again = await api.POST("/threads/{thread}/resume", {
    params: { path },
    body: { suspensionId: question.suspensionId, approved: true },
  });
  check("a problem", again.error?.code === "already_resolved", again);
  const run = await api.GET("/runs/{run}", { params: { path: { run: receipt.runId } } });
  check("the run", run.data?.status === "completed" && run.data.result !== undefined, run);
  const events = await api.GET("/threads/{thread}/events", { params: { path, query: { types: "RUN_FINISHED" } } });
  const page = events.data as components["schemas"]["EventsPage"];
  check("the log", page.items.length === 1 && page.items[0].type === "RUN_FINISHED", events);
  const messages = await api.GET("/threads/{thread}/messages", { params: { path } });
  check("the conversation", messages.data?.items.map((it) => it.role).join() === "USER,AI", messages);
  const models = await api.GET("/models");
  check("models", models.data?.items[0].isDefault === true, models);
  const health = await api.GET("/healthz");
  check("health", health.data?.status === "ok", health);
  console.log("done");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
