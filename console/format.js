// Times and figures: the server's clock, their formats, and texts updated four times a second.
//
// Time never renders a component: it marks a text with data-tick, which the clock updates.

const grouped = new Intl.NumberFormat('en');

/** 7.3 s, 2:31, 1:02:05, 3 d 4 h. */
export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  return countdown(ms);
}

/** Time left or passed: 23:41, 1:02:05, 3 d 4 h. */
export function countdown(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, '0');
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  if (s < 86400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** now, 12 s, 4 min, 2 h, yesterday, 3 d, 12 Oct. */
export function age(time, now) {
  const s = Math.max(0, Math.floor((now - time) / 1000));
  if (s < 5) return 'now';
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  if (s < 2 * 86400) return 'yesterday';
  if (s < 30 * 86400) return `${Math.floor(s / 86400)} d`;
  return new Date(time).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

/** 14:02, on another day 28 Nov, 14:02. */
export function clockTime(time, now = Date.now()) {
  const [day, today] = [time, now].map((one) => new Date(one).toDateString());
  return new Date(time).toLocaleString('en-GB', { hour: '2-digit', minute: '2-digit', ...(day !== today && { day: 'numeric', month: 'short' }) });
}

/** 23 Nov 2026, 14:02:05: for tooltips. */
export function fullTime(time) {
  return new Date(time).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

/** $0.094; null without a price. */
export function dollars(usd) {
  if (usd == null) return null;
  if (usd === 0) return '$0';
  return usd < 0.001 ? '<$0.001' : `$${usd.toFixed(usd < 10 ? 3 : 2)}`;
}

/** 412, 2,314, 38.2k, 1.2M */
export function tokens(n) {
  if (n == null) return '–';
  if (n < 10_000) return figure(n);
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(1)}M`;
}

/** 2,314 */
export const figure = (n) => grouped.format(n);

/** 1 question, 2 questions */
export function count(n, one, many = `${one}s`) {
  return `${figure(n)} ${n === 1 ? one : many}`;
}

/** Names in a text; none if absent. */
export const listed = (names = []) => names.join(', ');

/** A rule by its name: a default's name without its decision, which is shown beside it. */
export const ruleName = ({ rule, scope }) => (scope === 'default' ? rule.replace(/ = \w+$/, '') : rule);

/** Position and size: set through the CSSOM, as `...${placed({left: '3px'})}`. */
export function placed(style) {
  return { style };
}

/** `time` has `now()`, so that tests can set it. */
export function createClock(time = Date) {
  let offset = 0;
  let best = { took: Infinity, drift: 0 };
  let others = [];
  return {
    /** Milliseconds since 1970, as the server counts them. */
    now: () => time.now() + offset,
    /** Adjusts to a `Date` header: the fastest answer counts, until three in a row agree on another time: a clock was set. */
    heard(date, sentAt, now = time.now()) {
      const took = now - sentAt;
      // The header is cut to seconds: add half a second, the mean error.
      const drift = Date.parse(date ?? '') + 500 - (sentAt + took / 2);
      const agrees = (one) => Math.abs(drift - one.drift) <= 1000 + (took + one.took) / 2;
      if (Number.isNaN(drift) || took < 0) return;
      others = agrees(best) ? [] : [...others.filter(agrees), { took, drift }];
      if (others.length ? others.length < 3 : took > best.took) return;
      best = { took, drift };
      others = [];
      offset = Math.abs(drift) > 1500 ? drift : 0;
    },
  };
}

/** Values of `data-tick`: `since:T` and `left:T` in milliseconds, `age:T` in words. */
export function tickText(spec, now) {
  const colon = spec.indexOf(':');
  const time = Number(spec.slice(colon + 1));
  switch (spec.slice(0, colon)) {
    case 'since':
      return duration(Math.max(0, now - time));
    case 'left':
      return countdown(time - now);
    case 'age':
      return age(time, now);
    default:
      return null;
  }
}

/** Starts updates; none while the page is hidden or `isHeld()`. */
export function startTicking(clock, isHeld, document = globalThis.document) {
  const write = () => {
    if (document.hidden || isHeld()) return;
    const now = clock.now();
    for (const element of document.querySelectorAll('[data-tick]')) {
      const text = tickText(element.dataset.tick, now);
      const node = element.firstChild;
      if (text == null || node?.data === text) continue;
      if (node && node.nodeType === 3) node.data = text;
      else element.textContent = text;
    }
  };
  const timer = setInterval(write, 250);
  return () => clearInterval(timer);
}
