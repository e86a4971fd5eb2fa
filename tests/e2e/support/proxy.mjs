// A proxy between browser and server whose connections can be cut.

import { once } from 'node:events';
import net from 'node:net';

/** `{url, cutIn(text), close()}`. `cutIn` ends the connection that brings this text next, in the middle of it. */
export async function proxyTo(server) {
  const open = new Set();
  let cut = null;
  const proxy = net.createServer((client) => {
    const behind = net.connect(server.port, '127.0.0.1');
    for (const socket of [client, behind]) {
      open.add(socket);
      socket.once('close', () => {
        open.delete(socket);
        client.destroy();
        behind.destroy();
      });
      socket.on('error', () => {});
    }
    client.on('data', (data) => behind.write(data));
    behind.on('data', (data) => {
      const at = cut ? data.indexOf(cut.text) : -1;
      if (at < 0) return client.write(data);
      client.end(data.subarray(0, at + Math.floor(cut.text.length / 2)), () => client.destroy());
      cut.done();
      cut = null;
      return behind.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    cutIn: (text) => new Promise((done) => { cut = { text, done }; }),
    close() {
      proxy.close();
      for (const socket of open) socket.destroy();
    },
  };
}
