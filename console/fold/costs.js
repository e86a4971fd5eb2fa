// Tokens and money, by run and by item.

export function noCosts() {
  return { input: 0, output: 0, thinking: 0, cached: 0, costUsd: 0, priced: 0, unpriced: 0, llmCalls: 0, toolCalls: 0 };
}

/** Adds to the thread, the run and the item of an observation. */
export function addCosts(draft, told, more) {
  sum(draft.write('totals'), more);
  const run = draft.entry('runs', told.runId);
  if (run) sum(run, more);
  if (told.parentId != null) sum(draft.entry('costs', told.parentId, noCosts), more);
}

function sum(into, more) {
  for (const [name, value] of Object.entries(more)) into[name] += value;
}

/** What a reply took; a reply without a price is counted as such, never as free. */
export function addUsage(draft, stream, told, content) {
  const price = content.costUsd == null ? { unpriced: 1 } : { priced: 1, costUsd: content.costUsd };
  addCosts(draft, told, {
    input: content.inputTokens ?? 0, output: content.outputTokens ?? 0, thinking: content.thinkingTokens ?? 0,
    cached: content.cachedInputTokens ?? 0, ...price,
  });
}
