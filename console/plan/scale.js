// The axis of the timeline. Waits much longer than all the rest are drawn as a break, so that the work stays visible.

/** A wait is broken where it is longer than so many times the rest. */
const LONG = 10;
/** What a break takes of the axis. */
const BREAK = 0.06;

/**
 * `busy` are `{from, to}` in which something worked; what lies between them is a wait. Gives `{at(time) → 0..1, breaks, ticks}`.
 */
export function scale(from, to, busy, most = 6) {
  const end = Math.max(to, from + 1000);
  const quiet = gaps(from, end, busy);
  const work = end - from - quiet.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const long = quiet.filter((gap) => gap.to - gap.from > LONG * Math.max(1000, work) && gap.to - gap.from > 60_000);
  const pieces = [];
  let at = from;
  for (const gap of long) {
    pieces.push({ from: at, to: gap.from }, { ...gap, isBreak: true });
    at = gap.to;
  }
  pieces.push({ from: at, to: end });
  const rest = pieces.reduce((sum, piece) => (piece.isBreak ? sum : sum + piece.to - piece.from), 0) || 1;
  const room = 0.96 - BREAK * long.length;
  let place = 0;
  for (const piece of pieces) {
    piece.at = place;
    piece.share = piece.isBreak ? BREAK : ((piece.to - piece.from) / rest) * room;
    place += piece.share;
  }
  const atTime = (time) => {
    const piece = pieces.find((one) => time <= one.to) ?? pieces.at(-1);
    const length = piece.to - piece.from;
    return piece.at + (length ? Math.max(0, (time - piece.from) / length) : 0) * piece.share;
  };
  const breaks = pieces.filter((piece) => piece.isBreak).map((piece) => ({ at: piece.at, share: piece.share, ms: piece.to - piece.from }));
  return { at: atTime, breaks, ticks: long.length ? [{ time: from, ms: 0 }] : ticks(from, end, most), from, to: end };
}

function gaps(from, to, busy) {
  const sorted = busy.filter((one) => one.to > from).sort((a, b) => a.from - b.from);
  const out = [];
  let at = from;
  for (const one of sorted) {
    if (one.from > at) out.push({ from: at, to: Math.min(one.from, to) });
    at = Math.max(at, one.to);
  }
  if (to > at) out.push({ from: at, to });
  return out;
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400].map((s) => s * 1000);

function ticks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 86_400_000;
  const out = [];
  for (let ms = 0; from + ms < to && out.length < 40; ms += step) out.push({ time: from + ms, ms });
  return out;
}
