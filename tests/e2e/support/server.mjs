// Starts, kills and restarts a server for one test.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The program: `PES_BIN`, else what `cargo build` made. */
export function program() {
  const found = [process.env.PES_BIN, path.join(root, 'target/debug/pes'), path.join(root, 'target/release/pes')].find((one) => one && existsSync(one));
  if (!found) throw new Error('no server to test: set PES_BIN or run cargo build');
  return found;
}

/** A test that ends early leaves nothing behind. */
const running = new Set();
process.once('SIGTERM', () => process.exit(1));
process.once('exit', () => {
  for (const child of running) process.kill(-child.pid, 'SIGKILL');
});

export class Server {
  /** `env` adds to the environment; `script` names a file of `scripts/` for the demo model, `says` is one itself; `settings` is TOML. */
  static async start({ env = {}, script = null, says = null, settings = null } = {}) {
    const server = new Server();
    server.folder = mkdtempSync(path.join(tmpdir(), 'pes-e2e-'));
    server.env = { PES_DEMO_PACE: '1', RUST_LOG: 'warn', ...env };
    if (script) server.env.PES_DEMO_SCRIPT = fileURLToPath(new URL(`../scripts/${script}`, import.meta.url));
    if (says) {
      server.env.PES_DEMO_SCRIPT = path.join(server.folder, 'says.toml');
      writeFileSync(server.env.PES_DEMO_SCRIPT, says);
    }
    if (settings) {
      mkdirSync(path.join(server.folder, 'config'));
      writeFileSync(path.join(server.folder, 'config/local.toml'), settings);
    }
    server.port = 0;
    await server.launch();
    return server;
  }

  /** Starts the process, on the port that it had before. */
  async launch() {
    const args = ['serve', '--host', '127.0.0.1', '--port', String(this.port), '--data-dir', this.folder];
    // The server has its own process group, so that its child processes end with it.
    this.child = spawn(program(), args, { env: { PATH: process.env.PATH, HOME: this.folder, ...this.env }, cwd: this.folder, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
    const { child } = this;
    running.add(child);
    child.once('exit', () => running.delete(child));
    this.url = await new Promise((resolve, reject) => {
      let url = null;
      this.child.once('exit', (code) => reject(new Error(`the server ended with ${code} before it was ready`)));
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        url ??= line.match(/^url\s+(\S+)/)?.[1];
        if (line.trim() === 'ready') resolve(url);
      });
    });
    this.port = Number(new URL(this.url).port);
  }

  async kill() {
    if (!running.delete(this.child) || this.child.exitCode != null) return;
    const gone = once(this.child, 'exit');
    process.kill(-this.child.pid, 'SIGKILL');
    await gone;
  }

  async restart() {
    await this.kill();
    await this.launch();
  }

  async stop() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Answers the JSON; throws what was refused. */
  async ask(method, route, body, headers = {}) {
    const asked = { method, headers: { ...headers } };
    if (body !== undefined) {
      asked.headers['content-type'] ??= 'application/json';
      asked.body = JSON.stringify(body);
    }
    const response = await fetch(this.url + route, asked);
    const text = await response.text();
    const told = text ? JSON.parse(text) : null;
    if (!response.ok) throw Object.assign(new Error(`${method} ${route}: ${response.status} ${text}`), { status: response.status, body: told });
    return told;
  }

  get = (route, headers) => this.ask('GET', route, undefined, headers);

  post = (route, body, headers) => this.ask('POST', route, body, headers);

  /** Asks the thread, and waits until the run has ended or asks a person. */
  run = (thread, query, more = {}) => this.post(`/threads/${thread}/process`, { query, ...more }, { prefer: 'wait=60' });

  /** Starts a run and does not wait. */
  startRun = (thread, query, more = {}) => this.post(`/threads/${thread}/process`, { query, ...more });

  resume = (thread, body) => this.post(`/threads/${thread}/resume`, body, { prefer: 'wait=60' });

  async log(thread) {
    const all = [];
    for (;;) {
      const page = await this.get(`/threads/${thread}/events?after=${all.at(-1)?.seq ?? 0}&limit=200`);
      if (page.items.length === 0) return all;
      all.push(...page.items);
    }
  }

  /** Reads the live stream until `fits(observation)`: nothing is waited for by time. */
  async until(thread, fits, after = 0) {
    const stop = new AbortController();
    const response = await fetch(`${this.url}/threads/${thread}/events?after=${after}`, { headers: { accept: 'text/event-stream' }, signal: stop.signal });
    let text = '';
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      const blocks = text.split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const event = block.match(/^event: (.*)$/m)?.[1];
        const data = block.match(/^data: (.*)$/m)?.[1];
        if (event !== 'observation' || !fits(JSON.parse(data))) continue;
        stop.abort();
        return JSON.parse(data);
      }
    }
    throw new Error('the stream ended before that');
  }

  runEnded = (thread, after = 0) => this.until(thread, (told) => told.type === 'RUN_FINISHED', after);
}
