// Records the goldens anew: node record.mjs [CASE...]. It runs the cases against a server, compares the page's fold with the
// server's state at every observation, and writes the logs to tests/golden/console/.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CASES } from './support/cases.mjs';
import { compare } from './support/compare.mjs';
import { FOLDER } from './support/golden.mjs';
import { Server } from './support/server.mjs';

const wanted = process.argv.slice(2);
mkdirSync(FOLDER, { recursive: true });

for (const [name, { script, env, drive }] of Object.entries(CASES)) {
  if (wanted.length && !wanted.includes(name)) continue;
  const server = await Server.start({ script, env });
  try {
    for (const thread of await drive(server, Server)) {
      const { lines, differences } = await compare(server, thread);
      writeFileSync(path.join(FOLDER, `${thread}.ndjson`), `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
      console.log(`${thread}: ${lines.length} observations, ${differences.length} differ`, differences[0] ?? '');
      if (differences.length) process.exitCode = 1;
    }
  } finally {
    await server.stop();
  }
}
