// The time of the server, and what is written anew four times a second.
//
// A component never renders because time passes: it marks a text with data-tick, and this writes into it.

/** `time` is anything with `now()`, so that tests can set it. */
export function createClock(time = Date) {
  let offset = 0;
  let best = Infinity;
  return {
    /** Milliseconds since 1970, as the server counts them. */
    now: () => time.now() + offset,
    /** Takes in a `Date` header: the quickest answer counts, for it is the least out of date. */
    heard(date, sentAt, now = time.now()) {
      const server = Date.parse(date ?? '');
      const took = now - sentAt;
      if (Number.isNaN(server) || took > best) return;
      best = took;
      // The header is cut to the second: half a second is the middle of what it can mean.
      const drift = server + 500 - (sentAt + took / 2);
      offset = Math.abs(drift) > 1500 ? drift : 0;
    },
  };
}

/** What `data-tick` may say: `since:T` and `left:T` in milliseconds, `age:T` in words. */
export function tickText(spec, now, words) {
  const colon = spec.indexOf(':');
  const time = Number(spec.slice(colon + 1));
  switch (spec.slice(0, colon)) {
    case 'since':
      return words.duration(Math.max(0, now - time));
    case 'left':
      return words.countdown(Math.max(0, time - now));
    case 'age':
      return words.age(time, now);
    default:
      return null;
  }
}

/** Starts writing; stands still while the page is hidden or `isHeld()`. */
export function startTicking(clock, words, isHeld, document = globalThis.document) {
  const write = () => {
    if (document.hidden || isHeld()) return;
    const now = clock.now();
    for (const element of document.querySelectorAll('[data-tick]')) {
      const text = tickText(element.dataset.tick, now, words);
      const node = element.firstChild;
      if (text == null || node?.data === text) continue;
      if (node && node.nodeType === 3) node.data = text;
      else element.textContent = text;
    }
  };
  const timer = setInterval(write, 250);
  return () => clearInterval(timer);
}
