// Records the goldens anew: node record.mjs [CASE...]. It runs the cases against a server, compares the page's fold with the
// server's state at every observation, and writes what it saw to tests/golden/console/.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { empty, fold, told } from '../../console/fold/core.js';
import { CASES } from './support/cases.mjs';
import { canonical, digest, FOLDER } from './support/golden.mjs';
import { Server } from './support/server.mjs';

const wanted = process.argv.slice(2);
mkdirSync(FOLDER, { recursive: true });
let differ = 0;

for (const [name, { script, env, drive }] of Object.entries(CASES)) {
  if (wanted.length && !wanted.includes(name)) continue;
  const server = await Server.start({ script, env });
  try {
    for (const thread of await drive(server, Server)) differ += await record(server, thread);
  } finally {
    await server.stop();
  }
}
process.exitCode = differ ? 1 : 0;

async function record(server, thread) {
  const lines = [];
  let state = empty();
  let wrong = 0;
  for (const observation of await server.log(thread)) {
    const wants = await server.get(`/threads/${thread}/state?at=${observation.seq}`);
    state = fold(state, observation);
    const has = told(state, { threadId: thread, minSeq: wants.minSeq });
    if (canonical(has) !== canonical(wants)) {
      wrong += 1;
      if (wrong === 1) console.log(`${thread}: the fold differs at ${observation.seq} ${observation.type}\n  has   ${canonical(has)}\n  wants ${canonical(wants)}`);
    }
    lines.push(JSON.stringify({ observation, state: digest(wants) }));
  }
  writeFileSync(path.join(FOLDER, `${thread}.ndjson`), `${lines.join('\n')}\n`);
  console.log(`${thread}: ${lines.length} observations, ${wrong} differ`);
  return wrong;
}
