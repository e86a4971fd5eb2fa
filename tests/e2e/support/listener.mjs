// A program of somebody else that the server calls: a shop, a bank, a receiver of webhooks.

import { once } from 'node:events';
import { createServer } from 'node:http';

/** Hands every request on this loopback address to `handler(request, response)`. */
export async function startListener(handler) {
  const listener = createServer(handler);
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    close() {
      listener.closeAllConnections();
      listener.close();
    },
  };
}
