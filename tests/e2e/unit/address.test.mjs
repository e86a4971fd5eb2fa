import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAddress } from '../../../console/router.js';

/** A browser that takes so many changes and then throws, and its time. */
function browser(most = Infinity) {
  const written = [];
  const timers = [];
  const take = (how) => (state, title, hash) => {
    if (written.length >= most) throw new Error('too many');
    written.push(`${how} ${hash}`);
  };
  let time = 0;
  const address = createAddress({
    history: { replaceState: take('replace'), pushState: take('push') },
    now: () => time,
    later: (fn, ms) => timers.push([time + ms, fn]),
  });
  return {
    address,
    written,
    to(end) {
      time = end;
      for (const due of timers.filter(([at]) => at <= time)) {
        timers.splice(timers.indexOf(due), 1);
        due[1]();
      }
    },
  };
}

test('of many changes in quick succession the first and the last are written', () => {
  const { address, written, to } = browser();
  for (let n = 1; n <= 300; n++) {
    to(n);
    address.replace(`#${n}`);
  }
  assert.deepEqual(written, ['replace #1']);
  to(1000);
  assert.deepEqual(written, ['replace #1', 'replace #300']);
});

test('what waits is written before another place, and not after somebody went elsewhere', () => {
  const { address, written, to } = browser();
  address.replace('#1');
  address.replace('#2');
  address.push('#3');
  address.replace('#4');
  address.drop();
  to(1000);
  assert.deepEqual(written, ['replace #1', 'replace #2', 'push #3']);
});

test('a browser that takes no more stops nothing', () => {
  const { address, written, to } = browser(1);
  address.replace('#1');
  to(1000);
  address.replace('#2');
  address.push('#3');
  assert.deepEqual(written, ['replace #1']);
});
