// The address of the page. Browsers take only so many changes of it (Safari a hundred in half a minute, and throws then), and
// dragging the tape makes more: of those that follow quickly the last one is written.

const EVERY = 400;

export function createAddress({ history = globalThis.history, now = () => performance.now(), later = setTimeout } = {}) {
  let waiting = null;
  let next = 0;

  function write(how, hash) {
    next = now() + EVERY;
    try {
      history[how](null, '', hash);
    } catch {
      // The page goes on; a reload would show where it was before.
    }
  }

  /** Writes what waits. */
  function settle() {
    if (waiting !== null) write('replaceState', waiting);
    waiting = null;
  }

  return {
    settle,
    replace(hash) {
      if (waiting === null && now() < next) later(settle, next - now());
      waiting = hash;
      if (now() >= next) settle();
    },
    push(hash) {
      settle();
      write('pushState', hash);
    },
    /** Somebody has gone elsewhere: what waits is no place any more. */
    drop() {
      waiting = null;
    },
  };
}
