// The difference of two JSON values.

/** The JSON Pointer of a path of names and indices. */
export const pointer = (path) => path.map((step) => `/${String(step).replace(/~/g, '~0').replace(/\//g, '~1')}`).join('');

const kindOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

/** Equal as JSON: the order of members does not matter. */
export function same(a, b) {
  if (a === b) return true;
  const kind = kindOf(a);
  if (kind !== kindOf(b)) return false;
  if (kind === 'array') return a.length === b.length && a.every((entry, i) => same(entry, b[i]));
  if (kind !== 'object') return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}

/**
 * The places that differ, in the order of the first value: `{path, was?, now?}`, without `was` for a new one and without
 * `now` for a removed one. Lists of different lengths differ as a whole.
 */
export function diff(was, now, path = []) {
  if (same(was, now)) return [];
  const kind = kindOf(was);
  if (kind !== kindOf(now)) return [{ path, was, now }];
  if (kind === 'array' && was.length === now.length) {
    return was.flatMap((entry, i) => diff(entry, now[i], [...path, i]));
  }
  if (kind !== 'object') return [{ path, was, now }];
  const names = [...new Set([...Object.keys(was), ...Object.keys(now)])];
  return names.flatMap((name) => {
    const at = [...path, name];
    if (!Object.hasOwn(now, name)) return [{ path: at, was: was[name] }];
    if (!Object.hasOwn(was, name)) return [{ path: at, now: now[name] }];
    return diff(was[name], now[name], at);
  });
}

/** The same as lines of JSON: `{sign: '-' | '+', text}`. */
export function diffLines(was, now) {
  return diff(was, now).flatMap((change) => {
    const name = change.path.length === 0 ? '' : `${JSON.stringify(change.path.join('.'))}: `;
    const line = (sign, value) => ({ sign, text: `${name}${JSON.stringify(value, null, 2)}` });
    return [
      ...('was' in change ? [line('-', change.was)] : []),
      ...('now' in change ? [line('+', change.now)] : []),
    ];
  });
}

export function at(value, path) {
  return path.reduce((inside, step) => (
    inside !== null && typeof inside === 'object' && Object.hasOwn(inside, step) ? inside[step] : undefined), value);
}

/** The value with a replacement at a path; unchanged parts are shared. */
export function put(value, path, now) {
  if (path.length === 0) return now;
  const [step, ...rest] = path;
  if (Array.isArray(value)) return value.map((entry, i) => (i === step ? put(entry, rest, now) : entry));
  const known = Object.entries(value ?? {});
  const next = put(value !== null && Object.hasOwn(value ?? {}, step) ? value[step] : undefined, rest, now);
  // From entries, as a member may be called __proto__.
  return Object.fromEntries(known.some(([name]) => name === step)
    ? known.map(([name, entry]) => [name, name === step ? next : entry])
    : [...known, [step, next]]);
}

export function without(value, path) {
  const [step, ...rest] = path;
  if (rest.length > 0) return put(value, [step], without(value[step], rest));
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== step));
}
