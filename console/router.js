// Addresses. The hash has the whole view, so that reload, back and a link show the same.

const VIEWS = ['graph', 'list', 'changes', 'forecast', 'edit'];
const TABS = ['ask', 'talk', 'item', 'context'];
/** The parts of a narrow screen, shown one at a time. */
const PARTS = ['plan', 'time', 'talk', 'ask'];
const PAGES = ['new', 'threads', 'questions', 'compare', 'usage', 'policy', 'system', 'login'];

/** Unknown members are ignored, so a hash of another version of the page still works. */
export function parse(hash) {
  const [path, search = ''] = hash.replace(/^#?\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decode);
  const query = new URLSearchParams(search);
  if (parts.length === 0) return { page: 'home', query };
  if (parts[0] === 't' && parts[1]) return threadRoute(parts, query);
  const page = PAGES.includes(parts[0]) ? parts[0] : 'unknown';
  if (page === 'questions') return { page, id: parts[1] ?? null, query };
  if (page === 'compare') return { page, a: parts[1] ?? null, b: parts[2] ?? null, query };
  return { page, path, query };
}

function threadRoute(parts, query) {
  const oneOf = (known, word) => (known.includes(word) ? word : null);
  const number = (text) => (text && Number.isSafeInteger(Number(text)) && Number(text) >= 0 ? Number(text) : null);
  return {
    page: 'thread',
    id: parts[1],
    view: oneOf(VIEWS, parts[2]),
    run: query.get('run'),
    at: number(query.get('at')),
    sel: query.get('sel'),
    tab: oneOf(TABS, query.get('tab')),
    part: oneOf(PARTS, query.get('part')),
    row: number(query.get('row')),
    query,
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function threadHash(route) {
  const query = new URLSearchParams();
  for (const name of ['run', 'at', 'sel', 'tab', 'part', 'row']) {
    if (route[name] != null) query.set(name, route[name]);
  }
  const view = route.view ? `/${route.view}` : '';
  const search = query.toString();
  return `#/t/${encodeURIComponent(route.id)}${view}${search ? `?${search}` : ''}`;
}

/** The hash of `route` with a patch; `null` removes a member. */
export function changed(route, patch) {
  return threadHash({ ...route, ...patch });
}

/** The part shown on a narrow screen. */
export function partOf(route, thread) {
  if (route.part) return route.part;
  if (route.tab === 'talk') return 'talk';
  if (route.tab) return route.tab;
  return route.view ? 'plan' : thread?.core.suspensions.length ? 'ask' : 'plan';
}

/* Browsers limit changes of the address (Safari throws after a hundred in half a minute), and dragging the tape makes more:
   of quick changes only the last is written. */

const EVERY = 400;

export function createAddress({ history = globalThis.history, now = () => performance.now(), later = setTimeout } = {}) {
  let waiting = null;
  let next = 0;

  function write(how, hash) {
    next = now() + EVERY;
    try {
      history[how](null, '', hash);
    } catch {
      // A reload would show the earlier place.
    }
  }

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
    /** Drops a pending address after navigation. */
    drop() {
      waiting = null;
    },
  };
}
