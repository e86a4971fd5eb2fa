// What is said to readers who listen: one polite line a second at most, of what changed in the thread that is shown.

import { WORD } from './shapes.js';

export function createAnnouncer(place, schedule = setTimeout) {
  const waiting = [];
  let isTelling = false;
  let last = null;

  function tell() {
    const line = waiting.shift();
    isTelling = line !== undefined;
    if (!isTelling) return;
    place.textContent = line;
    schedule(tell, 1000);
  }

  function say(line) {
    if (waiting.length > 3) waiting.splice(0, waiting.length - 3);
    waiting.push(line);
    if (!isTelling) tell();
  }

  return {
    say,
    /** Compares with what was shown before; the first sight of a thread says nothing. */
    seen(thread) {
      if (!thread || thread.replay || thread.status !== 'ready') return;
      const before = last?.id === thread.id ? last : null;
      const now = { id: thread.id, items: new Map(thread.core.todoList.map((item) => [item.id, thread.shown(item)])), status: thread.core.status };
      last = now;
      if (!before) return;
      for (const item of thread.core.todoList) {
        const status = now.items.get(item.id);
        if (before.items.has(item.id) && before.items.get(item.id) !== status) say(`${item.description}: ${WORD[status]}`);
      }
      if (before.status !== now.status && now.status === 'idle') {
        say(`The run has ended: ${WORD[thread.newestRun?.resultStatus] ?? 'cancelled'}`);
      }
    },
  };
}
