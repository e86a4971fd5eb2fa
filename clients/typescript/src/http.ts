// Requests: repeated where that does nothing twice, and refused with a typed error.

import { PesError, PesUnreachable, reasonOf } from "./errors.js";
import type { Problem } from "./types.js";

export interface PesOptions {
  /** Where the server is. A path in it is kept. */
  url: string;
  /** An API key, if the server wants one. */
  key?: string;
  /** How long a request is repeated after its first failure, if the server cannot be reached or says to come back. */
  retryForMs?: number;
  /** What the platform lacks, or what a test puts in its place. */
  fetch?: typeof globalThis.fetch;
  WebSocket?: typeof globalThis.WebSocket;
}

export interface Abortable {
  signal?: AbortSignal;
}

export interface RequestOptions extends Abortable {
  body?: unknown;
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  /** The request is done once, however often it arrives: it may be repeated. Without a key only a GET is. */
  idempotencyKey?: string;
  /** How long the answer may take. */
  timeoutMs?: number;
}

const RETRY_FOR_MS = 30_000;
const TIMEOUT_MS = 30_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/** 128 random bits in hex. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", stop);
    function done() {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
  });
}

/** The pause before another attempt: it doubles, and differs between clients. */
export function backoff(attempt: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
}

/** One attempt: an answer, or why there is none and whether another attempt may bring one. */
type Attempt = { answer: unknown } | { error: Error; mayRepeat: boolean; afterMs?: number };

export class Http {
  readonly base: string;
  /** Without white space around it, as files have it; an empty one is none. */
  readonly key: string | undefined;

  constructor(readonly options: PesOptions) {
    const { url, key } = options;
    const { href: address, username, password } = URL.canParse(url) ? new URL(url) : { href: "", username: "", password: "" };
    // `fetch` would refuse it each time, with an error that shows the password.
    if (username || password) throw new TypeError("The address of a server has a user or a password, which cannot be sent; give a `key`.");
    if (!/^https?:[^?#]+$/.test(address)) throw new TypeError(`The address of a server is http://HOST:PORT or https://HOST, not ${url}`);
    this.base = address.replace(/\/+$/, "");
    this.key = key?.trim() || undefined;
    if (this.key !== undefined && !/^[ -~]+$/.test(this.key)) throw new TypeError("The key has characters that no key has.");
  }

  /** The address of a path; `undefined` members of the query are left out. */
  address(path: string, query: RequestOptions["query"] = {}): URL {
    const url = new URL(this.base + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
  }

  /** `mayBeText`: an answer of a content type that is not JSON is returned as text; else it is none of this server. */
  async request<T>(method: string, path: string, options: RequestOptions = {}, mayBeText = false): Promise<T> {
    const { body, query, signal, idempotencyKey, timeoutMs = TIMEOUT_MS } = options;
    // Made before anything is sent: what cannot be sent at all is the caller's mistake, and not repeated.
    const url = this.address(path, query);
    // Names of any case: a second `content-type` beside the caller's own would be refused.
    const headers = new Headers(options.headers);
    if (!headers.has("accept")) headers.set("accept", "application/json");
    if (this.key !== undefined) headers.set("authorization", `Bearer ${this.key}`);
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
    if (body !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const isText = typeof body === "string" && isOtherThanJson(headers);
    const init = { method, headers, body: body === undefined ? null : isText ? body : JSON.stringify(body) };
    const isRepeatable = method === "GET" || idempotencyKey !== undefined;
    let until: number | undefined;
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.attempt(url, init, timeoutMs, signal, mayBeText);
      if ("answer" in outcome) return outcome.answer as T;
      const now = Date.now();
      // An attempt may take longer than `retryForMs`, and is repeated nevertheless.
      until ??= now + (this.options.retryForMs ?? RETRY_FOR_MS);
      const pause = outcome.afterMs ?? backoff(attempt);
      if (!isRepeatable || !outcome.mayRepeat || now + pause >= until) throw outcome.error;
      await sleep(pause, signal);
    }
  }

  private async attempt(
    url: URL,
    init: RequestInit,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    mayBeText: boolean,
  ): Promise<Attempt> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const call = this.options.fetch ?? globalThis.fetch;
    try {
      const response = await call(url, { ...init, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
      const text = await response.text();
      return mayBeText && response.ok && isOtherThanJson(response.headers) ? { answer: text } : this.read(response, text);
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      const reason = this.withoutKey(reasonOf(cause));
      return { error: new PesUnreachable(`${init.method} ${url}: ${reason}`, { cause }), mayRepeat: true };
    }
  }

  private read(response: Response, text: string): Attempt {
    const { status, headers } = response;
    const json = parse(text);
    if (response.ok && (json !== undefined || text === "")) return { answer: json };
    const seconds = Number(headers.get("retry-after") ?? NaN);
    const after = Number.isNaN(seconds) ? {} : { afterMs: seconds * 1000 };
    if (isProblem(json)) {
      const isPassing = [408, 429, 502, 503, 504].includes(status) || json.code === "request_in_progress";
      return { error: new PesError(json), mayRepeat: json.retryable && isPassing, ...after };
    }
    const said = this.withoutKey(text).slice(0, 200);
    const error = new PesUnreachable(`${response.url} answered ${status}, which is none of a PES server: ${said}`);
    return { error, mayRepeat: [502, 503, 504].includes(status), ...after };
  }

  /** What another program says, which may repeat the headers that it was sent. */
  private withoutKey(said: string): string {
    return this.key === undefined ? said : said.replaceAll(this.key, "…");
  }
}

function isOtherThanJson(headers: Headers): boolean {
  const type = headers.get("content-type") ?? "application/json";
  return !/^application\/([^;]+\+)?json *(;|$)/i.test(type);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isProblem(json: unknown): json is Problem {
  return typeof json === "object" && json !== null && "code" in json && "title" in json && "retryable" in json;
}
