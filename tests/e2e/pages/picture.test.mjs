// The picture of the README: a running plan, and a call that a person must approve. PES_PICTURES=1 takes it again.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open, painted } from '../support/browser.mjs';
import { DINNER, INVITE } from '../support/demo.mjs';
import { serve } from '../support/setup.mjs';

const PICTURES = fileURLToPath(new URL('../../../docs/pictures', import.meta.url));

const server = await serve();

for (const dark of [false, true]) {
  const theme = dark ? 'dark' : 'light';
  test(`a plan and its approval fit on one screen, ${theme}`, async () => {
    const thread = `dinner-${theme}`;
    await server.run(thread, DINNER);
    await server.run(thread, INVITE);
    const page = await open(server, `#/t/${thread}`, { width: 1280, height: 720, dark });
    await painted(page, (await server.get(`/threads/${thread}`)).lastSeq);
    await page.locator('[data-node=send][data-status=ask]').waitFor();
    const approve = await page.getByRole('button', { name: /^Approve/ }).boundingBox();
    assert.ok(approve.y + approve.height <= 720, `the button ends at ${approve.y + approve.height}`);
    if (process.env.PES_PICTURES) await page.screenshot({ path: `${PICTURES}/plan-${theme}.png` });
    assert.deepEqual(page.wrong, []);
  });
}
