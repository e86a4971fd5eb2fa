// Shared by the tests of questions and edits.

import assert from 'node:assert/strict';

export const at = (page, id) => page.locator(`[data-testid="${id}"]`);

/** The open question of a thread, as the server tells it. */
export async function questionOf(server, thread, kind) {
  const { items } = await server.get('/suspensions?limit=200');
  return items.find((one) => one.threadId === thread && (!kind || one.kind === kind));
}

/** Closes a page on which nothing went wrong. */
export async function done(page) {
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
