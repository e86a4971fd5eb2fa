// What can go wrong between a client and the server.

import type { Code, Problem } from "./types.js";

/** The server refused. `code` is one word of a closed list; `problem` is all that it said (RFC 9457). */
export class PesError extends Error {
  override readonly name = "PesError";
  readonly code: Code;
  readonly status: number;

  constructor(readonly problem: Problem) {
    super(`${problem.title}: ${problem.detail} (${problem.code})`);
    this.code = problem.code;
    this.status = problem.status;
  }
}

/** The server could not be reached for so long that the client gave up, or what answered is another program. */
export class PesUnreachable extends Error {
  override readonly name = "PesUnreachable";
}

/**
 * Why a request brought no answer: what `fetch` says and what lies behind it, as "fetch failed: connect ECONNREFUSED
 * 127.0.0.1:7070". A browser tells its pages only the first part.
 */
export function reasonOf(error: unknown, depth = 0): string {
  // By their members, not their classes: in a sandbox such as Jest's, errors of the platform are of foreign classes.
  if (typeof error !== "object" || error === null) return String(error);
  const { name, message, code, cause, errors } = error as { [member: string]: unknown };
  // One for each address of the host, where it has several; `message` is empty then.
  const inner = Array.isArray(errors) ? errors : cause === undefined ? [] : [cause];
  const behind = depth < 5 ? [...new Set(inner.map((one) => reasonOf(one, depth + 1)))].join(", ") : "";
  const text = String(message ?? "").trim() || (behind ? "" : (name ?? "unknown"));
  const own = typeof code === "string" && !`${text}${behind}`.includes(code) ? `${text} (${code})` : text;
  return [own, behind].filter(Boolean).join(": ");
}
