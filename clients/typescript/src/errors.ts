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
