// The cases of the goldens run again against the server under test: its states equal the page's fold.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CASES } from '../support/cases.mjs';
import { compare } from '../support/compare.mjs';
import { Server } from '../support/server.mjs';

for (const [name, { script, env, drive }] of Object.entries(CASES)) {
  test(`the states of ${name} are the server’s at every observation`, async (t) => {
    const server = await Server.start({ script, env });
    t.after(() => server.stop());
    for (const thread of await drive(server, Server)) {
      const { lines, differences } = await compare(server, thread);
      assert.ok(lines.length > 0);
      assert.deepEqual(differences, []);
    }
  });
}
