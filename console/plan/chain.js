// The chain of items that decides when the run ends: measured where an item is over, so far where it goes on, and the median
// of the measured ones where it has not begun.

const OVER = new Set(['completed', 'failed', 'cancelled']);

/** `weigh(item)` is `{ms, over}` or null if it has not begun. Gives the ids from the first to the last. */
export function chain(items, weigh) {
  const weights = new Map(items.map((item) => [item.id, weigh(item)]));
  const measured = [...weights.values()].filter((weight) => weight?.over).map((weight) => weight.ms).sort((a, b) => a - b);
  const usual = measured.length ? measured[measured.length >> 1] : 1;
  const byId = new Map(items.map((item) => [item.id, item]));
  const best = new Map();
  const lengthOf = (first) => {
    const stack = [first];
    const open = new Set();
    while (stack.length) {
      const item = stack.at(-1);
      open.add(item.id);
      const needs = (item.dependencies ?? []).filter((id) => byId.has(id));
      const next = needs.find((id) => !best.has(id) && !open.has(id));
      if (next !== undefined) {
        stack.push(byId.get(next));
        continue;
      }
      stack.pop();
      if (best.has(item.id)) continue;
      let from = null;
      // On a tie the first in plan order.
      for (const id of needs) if (best.has(id) && best.get(id).ms > (from?.ms ?? 0)) from = best.get(id);
      best.set(item.id, { id: item.id, ms: (from?.ms ?? 0) + (weights.get(item.id)?.ms ?? usual), from });
    }
    return best.get(first.id);
  };
  let longest = null;
  for (const item of items) {
    const one = lengthOf(item);
    if (!longest || one.ms > longest.ms) longest = one;
  }
  const ids = [];
  for (let one = longest; one; one = one.from) ids.unshift(one.id);
  return ids;
}

/** How long an item took or takes, from the spans of a view, as of `now`. */
export function weightOf(view, now) {
  return (item) => {
    const id = view.itemSpans.get(item.id)?.findLast((one) => view.spans.has(one));
    const span = id && view.spans.get(id);
    if (!span || item.status === 'pending') return null;
    return { ms: (span.end ?? now) - span.start, over: OVER.has(item.status), span };
  };
}
