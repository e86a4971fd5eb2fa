// The lanes beside the plan's list, like a version history: one row per item, in plan order.

/**
 * An item takes the lane of its leftmost dependency that ends here, else the first free one; a lane stays open until its last
 * dependent. Returns `{rows, width}`; a row is `{lane, from, through, down}`.
 */
export function lanes(items) {
  const ids = new Set(items.map((item) => item.id));
  const needs = (item) => (item.dependencies ?? []).filter((id) => ids.has(id));
  const last = new Map();
  items.forEach((item, i) => needs(item).forEach((id) => last.set(id, Math.max(i, last.get(id) ?? 0))));
  const laneOf = new Map();
  const open = [];
  const rows = items.map((item, i) => {
    const before = open.slice();
    const known = needs(item).filter((id) => laneOf.has(id));
    const ending = known.filter((id) => last.get(id) === i).map((id) => laneOf.get(id));
    for (const lane of ending) open[lane] = null;
    let lane = ending.length ? Math.min(...ending) : open.findIndex((id) => id == null);
    if (lane < 0) lane = open.length;
    laneOf.set(item.id, lane);
    const down = (last.get(item.id) ?? -1) > i;
    open[lane] = down ? item.id : null;
    const through = before.flatMap((id, other) => (id != null && open[other] === id && other !== lane ? [other] : []));
    return { lane, from: known.map((id) => laneOf.get(id)), through, down };
  });
  const width = rows.reduce((most, row) => Math.max(most, row.lane, ...row.from, ...row.through), -1) + 1;
  return { rows, width };
}
