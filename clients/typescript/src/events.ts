// A thread's events over a WebSocket: what happened, then what happens, each observation exactly once.

import { PesUnreachable } from "./errors.js";
import { type Abortable, type Http, backoff, sleep } from "./http.js";
import type { EventsPage, GapFrame, LiveFrame, ObservationType, RunStatus, Token } from "./types.js";

export interface EventsOptions extends Abortable {
  /** Begin behind this seq, or with what comes next. The default is 0: everything. */
  after?: number | "latest";
  /** Only observations of these types. */
  types?: ObservationType[];
  /** `false`: leave the tokens out. */
  tokens?: boolean;
  /** End with this run; the last frame is `run` with its result. */
  until?: string;
}

/** Connections in a row that bring nothing, after which nothing is expected any more. */
const MOST_FAILURES = 8;
/** A connection that is silent for so long is asked whether it lives, and given up after the same time again. */
const SILENT_MS = 20_000;
/** Frames that may wait for a slow reader. Beyond that they are dropped, and read again when it comes to them. */
const MOST_WAITING = 5_000;
const OVER: RunStatus[] = ["completed", "failed", "cancelled"];

/**
 * Frames of a thread. A connection that breaks is opened again behind the last observation that was yielded, so none is
 * missed and none comes twice; of tokens that come again only the new part is yielded. A `gap` is yielded only where
 * observations are gone for good; if its `fromSeq` was yielded before, the log went back to an earlier state and comes again
 * from there. Ends with the run of `until`, and with the thread; a refusal is a `PesError`.
 */
export async function* events(http: Http, thread: string, options: EventsOptions): AsyncGenerator<LiveFrame, void> {
  const { types, tokens, until, signal } = options;
  const path = `/threads/${encodeURIComponent(thread)}/events`;
  const aborts: Abortable = signal ? { signal } : {};
  const page = (after: number | "latest") =>
    http.request<EventsPage>("GET", path, { query: { after, limit: 1, types: types?.join() }, ...aborts });
  const heard = new Heard(options.after === "latest" ? (await page("latest")).lastSeq : (options.after ?? 0), !types?.length);
  for (let failures = 0; ; failures++) {
    if (failures === MOST_FAILURES) {
      throw new PesUnreachable(`${http.base + path}: the server answers, but no WebSocket holds. Does a proxy pass it on?`);
    }
    const query = { after: heard.last, types: types?.join(), tokens, until };
    const socket = new Socket(http, http.address(path, query), signal);
    let pause: number | undefined;
    heard.connects();
    try {
      for await (const frame of socket.frames()) {
        if (frame.event === "draining") pause = frame.data.retryInMs;
        if (heard.isBroken(frame)) break;
        for (const fresh of heard.take(frame)) {
          failures = -1;
          yield fresh;
          if (fresh.event === "run" && fresh.data.runId === until && OVER.includes(fresh.data.status)) return;
        }
      }
    } finally {
      socket.close();
    }
    if (socket.closed === 1000) return;
    await sleep(pause ?? backoff(Math.max(failures, 0)), signal);
    if (socket.wasOpen) continue;
    // A browser does not tell why a WebSocket was refused; these requests do. They wait while nobody answers. A place in the
    // log is left out, as a page from a place that is gone is refused, while the stream goes on behind a `gap`.
    await page(isSeq(heard.last) ? "latest" : heard.last);
    if (until !== undefined) await http.request("GET", `/runs/${encodeURIComponent(until)}`, aborts);
  }
}

function isSeq(after: number): boolean {
  return Number.isSafeInteger(after) && after >= 0;
}

/** What was yielded so far. */
class Heard {
  /** Bytes of each stream of tokens, by run. */
  private readonly said = new Map<string, Map<string, number>>();
  /** The next frame is the first one of its connection. */
  private isFirst = true;
  /** A gap that may say only that this reader was too slow. */
  private held: GapFrame | undefined;

  constructor(
    public last: number,
    private readonly isWhole: boolean,
  ) {}

  /** Whether an observation is missing before this one that nobody said is gone. */
  isBroken(frame: LiveFrame): boolean {
    return this.isWhole && frame.event === "observation" && frame.data.seq > this.last + 1;
  }

  /** A connection is opened, behind `last`. A gap that ended the one before is forgotten: where observations are gone, it comes again. */
  connects(): void {
    this.isFirst = true;
    this.held = undefined;
  }

  /** The frame as far as it is new, behind the gap that was held back. */
  take(frame: LiveFrame): LiveFrame[] {
    const { held, isFirst } = this;
    this.held = undefined;
    this.isFirst = false;
    if (held) this.last = held.data.fromSeq - 1;
    return [held, this.fresh(frame, isFirst)].filter((fresh) => fresh !== undefined);
  }

  private fresh(frame: LiveFrame, isFirst: boolean): LiveFrame | undefined {
    switch (frame.event) {
      case "observation":
        if (frame.data.seq <= this.last) return undefined;
        this.last = frame.data.seq;
        if (frame.data.type === "RUN_FINISHED") this.said.delete(frame.data.runId);
        return frame;
      case "run":
        if (OVER.includes(frame.data.status)) this.said.delete(frame.data.runId);
        return frame;
      case "caught_up":
        this.last = Math.max(this.last, frame.data.seq);
        return frame;
      case "gap": {
        const { fromSeq } = frame.data;
        if (fromSeq === this.last + 1) return undefined;
        // Later in a connection, what lies between may be there, but of types that are not wanted. Then this reader was too slow,
        // and nothing follows; what was removed while it was read is followed by the rest.
        if (!this.isWhole && !isFirst && fromSeq > this.last) {
          this.held = frame;
          return undefined;
        }
        this.last = fromSeq - 1;
        return frame;
      }
      case "token": {
        const data = this.rest(frame.data);
        return data && { event: "token", data };
      }
      case "draining":
        return undefined;
      case "tool_started":
      case "thread":
      case "thread_deleted":
      case "suspension":
        return frame;
    }
  }

  private rest(token: Token): Token | undefined {
    const said = this.said.get(token.runId) ?? new Map<string, number>();
    this.said.set(token.runId, said);
    const stream = `${token.streamId} ${token.tokenType}`;
    const known = said.get(stream) ?? 0;
    const bytes = new TextEncoder().encode(token.data);
    const end = token.offset + bytes.length;
    if (end <= known) return undefined;
    said.set(stream, end);
    if (token.offset >= known) return token;
    return { ...token, offset: known, data: new TextDecoder().decode(bytes.subarray(known - token.offset)) };
  }
}

/** One connection. */
class Socket {
  wasOpen = false;
  /** The code that it was closed with. */
  closed: number | undefined;
  private readonly socket: WebSocket;
  private readonly waiting: string[] = [];
  private readonly watch: ReturnType<typeof setInterval>;
  private isOver = false;
  private silentFor = 0;
  private wake: () => void = () => {};

  constructor(http: Http, url: URL, private readonly signal?: AbortSignal) {
    const Implementation = http.options.WebSocket ?? globalThis.WebSocket;
    if (!Implementation) throw new PesUnreachable("This platform has no WebSocket: use Node 22, start Node 20 with --experimental-websocket, or give one as an option.");
    url.protocol = url.protocol.replace("http", "ws");
    const { key } = http;
    this.socket = new Implementation(url, key === undefined ? ["pes.v1"] : ["pes.v1", `bearer.${base64url(key)}`]);
    this.socket.onopen = () => (this.wasOpen = true);
    this.socket.onmessage = ({ data }) => this.hear(String(data));
    this.socket.onclose = ({ code }) => this.end(code);
    this.socket.onerror = () => this.end();
    this.watch = setInterval(() => this.tick(), SILENT_MS);
    signal?.addEventListener("abort", this.close);
  }

  /** What arrives, until the connection ends. */
  async *frames(): AsyncGenerator<LiveFrame, void> {
    while (true) {
      this.signal?.throwIfAborted();
      const text = this.waiting.shift();
      if (text !== undefined) {
        const frame = JSON.parse(text) as LiveFrame | { event: "pong" };
        if (frame.event !== "pong") yield frame;
      } else if (this.isOver) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    }
  }

  readonly close = (): void => {
    this.end();
    this.socket.close();
  };

  private hear(text: string): void {
    this.silentFor = 0;
    if (this.isOver) return;
    this.waiting.push(text);
    if (this.waiting.length > MOST_WAITING) this.close();
    this.wake();
  }

  private tick(): void {
    this.silentFor++;
    if (this.silentFor > 2) this.close();
    else if (this.silentFor > 1 && this.wasOpen) this.socket.send(JSON.stringify({ op: "ping" }));
  }

  /** Once: a close that this side began says nothing. */
  private end(code?: number): void {
    if (this.isOver) return;
    this.closed = code;
    this.isOver = true;
    clearInterval(this.watch);
    this.signal?.removeEventListener("abort", this.close);
    this.wake();
  }
}

function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
