// The picture of the README: a running plan, and a call that a person must approve. PES_PICTURES=1 takes it again.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open, painted, quit } from '../support/browser.mjs';
import { Server } from '../support/server.mjs';

const PICTURES = fileURLToPath(new URL('../../../docs/pictures', import.meta.url));

let server;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await quit();
  await server?.stop();
});

for (const dark of [false, true]) {
  const theme = dark ? 'dark' : 'light';
  test(`a plan and its approval fit on one screen, ${theme}`, async () => {
    const thread = `dinner-${theme}`;
    await server.run(thread, 'Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.');
    await server.run(thread, 'Send the team an invitation to the dinner.');
    const page = await open(server, `#/t/${thread}`, { width: 1280, height: 720, dark });
    await painted(page, (await server.get(`/threads/${thread}`)).lastSeq);
    await page.locator('[data-node=send][data-status=ask]').waitFor();
    const approve = await page.getByRole('button', { name: /^Approve/ }).boundingBox();
    assert.ok(approve.y + approve.height <= 720, `the button ends at ${approve.y + approve.height}`);
    if (process.env.PES_PICTURES) await page.screenshot({ path: `${PICTURES}/plan-${theme}.png` });
    assert.deepEqual(page.wrong, []);
  });
}
