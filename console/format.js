// Figures and times in words.

const grouped = new Intl.NumberFormat('en');

/** 7.3 s, 2:31, 1:02:05, 3 d 4 h. */
export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  return countdown(ms);
}

/** 23:41, 1:02:05, 3 d 4 h. */
export function countdown(ms) {
  const s = Math.floor(ms / 1000);
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

/** 14:02 */
export function clockTime(time) {
  return new Date(time).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}

/** 23 Nov 2026, 14:02:05: for tooltips. */
export function fullTime(time) {
  return new Date(time).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

/** $0.094; null where nobody knows a price. */
export function dollars(usd) {
  if (usd == null) return null;
  if (usd === 0) return '$0';
  return usd < 0.001 ? '<$0.001' : `$${usd.toFixed(usd < 10 ? 3 : 2)}`;
}

/** 412, 2,314, 38.2k, 1.2M */
export function tokens(n) {
  if (n == null) return '–';
  if (n < 10_000) return grouped.format(n);
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(1)}M`;
}

/** 1.2 MB */
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** 1 question, 2 questions */
export function count(n, one, many = `${one}s`) {
  return `${grouped.format(n)} ${n === 1 ? one : many}`;
}

/** Where something stands and how large it is: set through the CSSOM, as `...${placed({left: '3px'})}`. */
export function placed(style) {
  return { style };
}
