// Long lists: the rows in sight.

import { useState } from '../vendor/preact-htm.js';

/** Rows drawn above and below those in sight. */
const AROUND = 20;

/** Which of `count` rows of one height are drawn in a box that scrolls: `{from, to, onScroll}`. */
export function useInSight(count, row, height) {
  const [top, setTop] = useState(0);
  const from = Math.max(0, Math.floor(top / row) - AROUND);
  const to = Math.min(count, Math.ceil((top + height) / row) + AROUND);
  return { from, to, onScroll: (event) => setTop(event.currentTarget.scrollTop) };
}
