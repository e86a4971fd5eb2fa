// The server's API: requests; refusals are errors.

/** A refusal, or no connection: then `code` is `unreachable`. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.name = 'Problem';
    this.status = status;
    this.code = body.code ?? (status ? `http_${status}` : 'unreachable');
    this.title = body.title ?? this.message;
    this.detail = body.detail ?? null;
    /** The members: `[{pointer, detail, code?}]`. */
    this.errors = body.errors ?? [];
    /** After a proxy's timeout the outcome is unknown. */
    this.retryable = body.retryable ?? (status === 0 || status >= 500);
    this.traceId = body.traceId ?? null;
    /** The whole document, with members of its own. */
    this.body = body;
  }

  get isUnreachable() {
    return this.status === 0;
  }
}

/** An idempotency key for one press of a button, kept for its retries. */
export function newKey() {
  // `randomUUID` is missing over plain HTTP.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export const enc = encodeURIComponent;

/** The server's base path: the page is at its slash. */
export function basePath(place = globalThis.location) {
  return place ? place.pathname.replace(/\/[^/]*$/, '') : '';
}

/** `onRefused` gets every 401, `onServed(path)` every success; `clock` the server's time. */
export function createApi({ base = basePath(), clock, onRefused = () => {}, onServed = () => {}, fetch = globalThis.fetch.bind(globalThis) } = {}) {
  /** Returns `{status, body, etag}`; throws a `Problem`. */
  async function send(method, path, body, { key, ifMatch, type, signal, bearer } = {}) {
    const headers = { accept: 'application/json' };
    if (body !== undefined) headers['content-type'] = type ?? 'application/json';
    if (key) headers['idempotency-key'] = key;
    if (ifMatch) headers['if-match'] = ifMatch;
    if (bearer) headers.authorization = `Bearer ${bearer}`;
    const asked = { method, headers, signal, credentials: 'same-origin', cache: 'no-store' };
    if (body !== undefined) asked.body = typeof body === 'string' ? body : JSON.stringify(body);
    const sentAt = Date.now();
    let response;
    let text;
    try {
      response = await fetch(base + path, asked);
      clock?.heard(response.headers.get('date'), sentAt);
      text = await response.text();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Problem(0, { title: 'The server does not answer.' });
    }
    const parsed = read(text, response.headers.get('content-type') ?? '');
    if (!response.ok) {
      const problem = new Problem(response.status, typeof parsed === 'object' && parsed ? parsed : { detail: text.slice(0, 500) });
      if (response.status === 401 && !bearer) onRefused(problem);
      throw problem;
    }
    onServed(path);
    return { status: response.status, body: parsed, etag: response.headers.get('etag') };
  }

  const api = {
    send,
    read: (path, options) => send('GET', path, undefined, options),
    get: async (path, options) => (await send('GET', path, undefined, options)).body,
    post: async (path, body, options) => (await send('POST', path, body ?? {}, options)).body,
    patch: async (path, body, options) => (await send('PATCH', path, body, options)).body,
    delete: async (path, options) => (await send('DELETE', path, undefined, options)).body,
    /** All pages of a list, up to `most` items: `{items, more}`. */
    async all(path, { most = 2000, ...options } = {}) {
      const items = [];
      let cursor = null;
      do {
        const sign = path.includes('?') ? '&' : '?';
        const page = await api.get(cursor ? `${path}${sign}cursor=${enc(cursor)}` : path, options);
        items.push(...page.items);
        cursor = page.nextCursor ?? null;
      } while (cursor && items.length < most);
      return { items, more: cursor != null };
    },
    /** Exchanges the key for a session of this browser; the key is not kept. */
    signIn: (key) => send('POST', '/session', undefined, { bearer: key }),
    signOut: () => send('DELETE', '/session'),
  };
  return api;
}

function read(text, type) {
  if (!text) return null;
  if (!type.includes('json')) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
