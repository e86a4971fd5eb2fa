// What tests of questions and edits need beside a browser.

export const at = (page, id) => page.locator(`[data-testid="${id}"]`);

/** The open question of a thread, as the server tells it. */
export async function questionOf(server, thread, kind) {
  const { items } = await server.get('/suspensions?limit=200');
  return items.find((one) => one.threadId === thread && (!kind || one.kind === kind));
}
