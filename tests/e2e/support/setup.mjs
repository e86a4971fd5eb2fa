// What the tests of a file share. It ends after the last of them.

import { after } from 'node:test';
import { quit } from './browser.mjs';
import { startListener } from './listener.mjs';
import { Server } from './server.mjs';

/** A server with these options of `Server.start`. With it the browser ends. */
export async function serve(options) {
  const server = await Server.start(options);
  after(async () => {
    await quit();
    await server.stop();
  });
  return server;
}

/** A program that the server calls: `{url}`. */
export async function listen(handler) {
  const listener = await startListener(handler);
  after(() => listener.close());
  return listener;
}
