// The page from its sources before a server that has another one in it, or none: for work on the page without building the
// server. `PES_PAGE=sources` turns it on; else the page is the one of the server.

import { createServer, request } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { once } from 'node:events';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../../../console');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
const HEADERS = {
  'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; "
    + "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', 'cross-origin-opener-policy': 'same-origin', 'cache-control': 'no-store',
};

/** `{url, close}` of the page of `server`. */
export async function front(server) {
  if (process.env.PES_PAGE !== 'sources') return { url: server.url, close: () => {} };
  const http = createServer((asked, answer) => file(asked, answer) || pass(asked, answer, server.port));
  const open = new Set();
  http.on('upgrade', (asked, socket, head) => tunnel(asked, socket, head, server.port));
  http.on('connection', (socket) => open.add(socket.once('close', () => open.delete(socket))));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const close = () => {
    http.close();
    for (const socket of open) socket.destroy();
  };
  return { url: `http://127.0.0.1:${http.address().port}`, close };
}

function file(asked, answer) {
  const { pathname } = new URL(asked.url, 'http://x');
  const isPage = pathname === '/' && asked.headers.accept?.includes('text/html');
  const name = isPage ? 'index.html' : pathname.startsWith('/console/') ? pathname.slice('/console/'.length) : null;
  const place = name && path.join(ROOT, path.normalize(`/${name}`));
  if (!place || asked.method !== 'GET' || !existsSync(place)) return false;
  answer.writeHead(200, { ...HEADERS, 'content-type': TYPES[path.extname(place)] });
  answer.end(readFileSync(place));
  return true;
}

function pass(asked, answer, port) {
  const onward = request({ host: '127.0.0.1', port, path: asked.url, method: asked.method, headers: asked.headers }, (told) => {
    answer.writeHead(told.statusCode, told.headers);
    told.pipe(answer);
  });
  onward.on('error', () => answer.destroy());
  answer.on('close', () => onward.destroy());
  asked.pipe(onward);
}

function tunnel(asked, socket, head, port) {
  const onward = connect(port, '127.0.0.1', () => {
    const lines = asked.rawHeaders.reduce((all, text, i) => all + (i % 2 ? `: ${text}\r\n` : text), '');
    onward.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${lines}\r\n`);
    onward.write(head);
    onward.pipe(socket).pipe(onward);
  });
  onward.on('error', () => socket.destroy());
  socket.on('error', () => onward.destroy());
  socket.on('close', () => onward.destroy());
}
