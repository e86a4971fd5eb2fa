// What a run's time was spent on, above its timeline.

import { spent } from '../../fold/waits.js';
import { duration } from '../../format.js';

export function Sums({ thread, run }) {
  const parts = spent(thread, run).map(({ what, ms }) => `${what} ${duration(ms)}`);
  return parts.length > 0 && `of ${duration((run.end ?? thread.now) - run.start)}: ${parts.join(' · ')}`;
}
