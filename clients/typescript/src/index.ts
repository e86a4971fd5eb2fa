// A client of PES Agent Server: ask an agent, watch what it does, decide what it asks.

import { type EventsOptions, events } from "./events.js";
import { type Abortable, Http, type PesOptions, type RequestOptions, newKey } from "./http.js";
import type {
  AgentProps, CancelReceipt, ConversationMessage, ConversationMessageList, ListedSuspension, ListedSuspensionList,
  LiveFrame, PESAgentStateData, Receipt, ResumeRequest, RunResource, TodoItem,
} from "./types.js";

export { PesError, PesUnreachable } from "./errors.js";
export type { EventsOptions } from "./events.js";
export type { Abortable, PesOptions, RequestOptions } from "./http.js";
export type * from "./types.js";

/** What a decision is about: a question as an observation, a receipt or a list shows it. The digest binds the answer to it. */
export interface Question {
  suspensionId: string;
  digest?: string;
}

export interface KeyedOptions extends Abortable {
  /** A key of your own, if the request may be made again after this process has ended. */
  idempotencyKey?: string;
}

/** Seconds that one request waits for a run; then the next one does. */
const WAIT_SECONDS = 50;

export class Pes {
  private readonly http: Http;

  /** A `TypeError`: the URL is no address of a server, or the key cannot be a key. */
  constructor(options: PesOptions | string) {
    this.http = new Http(typeof options === "string" ? { url: options } : options);
  }

  /** Asks. Returns when the request is durable: from then on the run goes on, whatever happens to this client. */
  process(thread: string, ask: string | AgentProps, options: KeyedOptions = {}): Promise<Receipt> {
    return this.post(`${at(thread)}/process`, typeof ask === "string" ? { query: ask } : ask, options);
  }

  /** What happens on a thread, each observation exactly once, across broken connections and restarts of the server. */
  events(thread: string, options: EventsOptions = {}): AsyncGenerator<LiveFrame, void> {
    return events(this.http, thread, options);
  }

  run(runId: string, options: Abortable = {}): Promise<RunResource> {
    return this.get(`/runs/${encodeURIComponent(runId)}`, {}, options);
  }

  /** The run, when it is over or waits for a person. */
  async settled(runId: string, options: Abortable = {}): Promise<RunResource> {
    const path = `/runs/${encodeURIComponent(runId)}`;
    while (true) {
      const timeoutMs = (WAIT_SECONDS + 20) * 1000;
      const run = await this.http.request<RunResource>("GET", path, { query: { wait: WAIT_SECONDS }, timeoutMs, ...options });
      if (["completed", "failed", "cancelled", "suspended"].includes(run.status)) return run;
    }
  }

  /** Says yes, or yes to other arguments. */
  approve(
    thread: string,
    question: Question,
    options: KeyedOptions & { modifiedArgs?: Record<string, unknown>; reason?: string } = {},
  ): Promise<Receipt> {
    const { modifiedArgs, reason, ...rest } = options;
    const said = { ...(modifiedArgs && { modifiedArgs }), ...(reason !== undefined && { reason }) };
    return this.resume(thread, { ...named(question), approved: true, ...said }, rest);
  }

  /** Says no; the model is told the reason. */
  reject(thread: string, question: Question, reason?: string, options: KeyedOptions = {}): Promise<Receipt> {
    return this.resume(thread, { ...named(question), approved: false, ...(reason !== undefined && { reason }) }, options);
  }

  /** Answers a question that wants a value, or gives the result of a tool that this client carries out. */
  answer(thread: string, question: Question, value: unknown, options: KeyedOptions = {}): Promise<Receipt> {
    return this.resume(thread, { ...named(question), value }, options);
  }

  /** Any answer, as the API takes it. */
  resume(thread: string, answer: ResumeRequest, options: KeyedOptions = {}): Promise<Receipt> {
    return this.post(`${at(thread)}/resume`, answer, options);
  }

  /** Ends the active run and those that wait behind it. */
  cancel(thread: string, options: KeyedOptions = {}): Promise<CancelReceipt> {
    return this.post(`${at(thread)}/cancel`, undefined, options);
  }

  plan(thread: string, options: Abortable = {}): Promise<TodoItem[]> {
    return this.get(`${at(thread)}/plan`, {}, options);
  }

  state(thread: string, options: Abortable = {}): Promise<PESAgentStateData> {
    return this.get(`${at(thread)}/state`, {}, options);
  }

  /** The conversation from its beginning, read page by page. */
  messages(thread: string, options: Abortable = {}): AsyncGenerator<ConversationMessage, void> {
    return this.pages<ConversationMessage, ConversationMessageList>(`${at(thread)}/messages`, {}, options);
  }

  /** Open questions, of one thread or of all. */
  questions(thread?: string, options: Abortable = {}): AsyncGenerator<ListedSuspension, void> {
    return this.pages<ListedSuspension, ListedSuspensionList>("/suspensions", { threadId: thread }, options);
  }

  /**
   * Anything else of the API that is answered at once; an answer that is not JSON, such as an export, is returned as text.
   * A `body` of text is sent as it is if `headers` name its content type, which is not JSON. Only what has an
   * `idempotencyKey`, or is a GET, is repeated when an answer is lost.
   */
  request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    return this.http.request(method, path, options, true);
  }

  private get<T>(path: string, query: NonNullable<RequestOptions["query"]>, options: Abortable): Promise<T> {
    return this.http.request("GET", path, { query, ...options });
  }

  private post<T>(path: string, body: unknown, options: KeyedOptions): Promise<T> {
    return this.http.request("POST", path, { body, ...options, idempotencyKey: options.idempotencyKey ?? newKey() });
  }

  private async *pages<T, P extends { items: T[]; nextCursor?: string }>(
    path: string,
    query: NonNullable<RequestOptions["query"]>,
    options: Abortable,
  ): AsyncGenerator<T, void> {
    let cursor: string | undefined;
    do {
      const page: P = await this.get(path, { ...query, cursor, limit: 200 }, options);
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }
}

function at(thread: string): string {
  return `/threads/${encodeURIComponent(thread)}`;
}

function named({ suspensionId, digest }: Question): ResumeRequest {
  return digest === undefined ? { suspensionId } : { suspensionId, digest };
}
