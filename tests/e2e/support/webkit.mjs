// WebKit as in Safari: the distribution's WebKitGTK on a screen that nobody sees, driven by its WebDriver.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';

const LIBRARIES = ['/usr/lib', '/usr/libexec'];
/** The name under which WebDriver sends an element. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

const running = new Set();
process.once('exit', () => {
  for (const child of running) process.kill(-child.pid, 'SIGKILL');
});

/** `…/webkit2gtk-4.1/MiniBrowser`: its place names the machine and the version. */
function miniBrowser() {
  const below = (folder, fits) => (existsSync(folder) ? readdirSync(folder).filter((name) => fits.test(name)).map((name) => `${folder}/${name}`) : []);
  const folders = LIBRARIES.flatMap((folder) => [folder, ...below(folder, /-linux-gnu$/)]).flatMap((folder) => below(folder, /^webkit(2)?gtk-\d/));
  const found = folders.map((folder) => `${folder}/MiniBrowser`).find((file) => existsSync(file));
  if (!found) throw new Error('no WebKit: apt-get install webkit2gtk-driver');
  return found;
}

function start(program, args, env, stdio = ['ignore', 'ignore', 'ignore']) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, detached: true, stdio });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

function end(child) {
  if (running.delete(child)) process.kill(-child.pid, 'SIGKILL');
}

/** A screen of X; it writes its number when it is ready. */
async function startScreen() {
  const child = start('Xvfb', ['-displayfd', '3', '-screen', '0', '1600x1200x24', '-nolisten', 'tcp'], {}, ['ignore', 'ignore', 'ignore', 'pipe']);
  const [number] = await Promise.race([once(child.stdio[3], 'data'), once(child, 'error').then(([error]) => { throw error; })]);
  return { child, display: `:${String(number).trim()}` };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** A window of WebKit. Waits are in the page: at every change of it, and at no time. */
export class WebKit {
  static async start() {
    const webkit = new WebKit();
    const screen = await startScreen();
    const port = await freePort();
    const env = { DISPLAY: screen.display, GDK_BACKEND: 'x11', LIBGL_ALWAYS_SOFTWARE: '1', NO_AT_BRIDGE: '1', GSETTINGS_BACKEND: 'memory' };
    webkit.children = [start('WebKitWebDriver', ['-p', String(port)], env), screen.child];
    webkit.url = `http://127.0.0.1:${port}`;
    await webkit.answers();
    const options = { binary: miniBrowser(), args: ['--automation'] };
    const { sessionId } = await webkit.send('POST', '/session', { capabilities: { alwaysMatch: { 'webkitgtk:browserOptions': options } } });
    webkit.url += `/session/${sessionId}`;
    await webkit.send('POST', '/timeouts', { script: 60_000 });
    await webkit.send('POST', '/window/rect', { width: 1440, height: 940 });
    return webkit;
  }

  /** The driver does not say when it listens. */
  async answers() {
    const [driver] = this.children;
    while (running.has(driver)) {
      if (await fetch(`${this.url}/status`).then(() => true, () => false)) return;
    }
    throw new Error('WebKitWebDriver ended: apt-get install webkit2gtk-driver');
  }

  async send(method, path, body = {}) {
    const asked = method === 'POST' ? { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : { method };
    const response = await fetch(this.url + path, asked);
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
    return value;
  }

  /** Opens an address; what goes wrong on it from now on is in `wrong()`. */
  async open(url) {
    await this.send('POST', '/url', { url });
    await this.run(() => {
      window.wrong = [];
      // A size that changes while another is being told is told at the next painting.
      addEventListener('error', ({ message }) => message.startsWith('ResizeObserver loop') || window.wrong.push(`error: ${message}`));
      addEventListener('unhandledrejection', ({ reason }) => window.wrong.push(`rejected: ${reason}`));
      document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => window.wrong.push(`refused: ${violatedDirective} ${blockedURI}`));
    });
  }

  wrong = () => this.run(() => window.wrong);

  reload = () => this.send('POST', '/refresh');

  /** The answer of a function in the page. */
  run = (fn, ...args) => this.send('POST', '/execute/sync', { script: `return (${fn})(...arguments)`, args });

  /** The same, and waits for it. */
  runLater = (fn, ...args) => this.send('POST', '/execute/async', { script: `const done = [...arguments].pop(); (${fn})(...arguments).then(done, (error) => done({ error: String(error) }))`, args });

  /** Waits until it answers something true, also in the page that is loaded meanwhile. */
  async until(fn, ...args) {
    const script = `const done = [...arguments].pop();
      const observer = new MutationObserver(look);
      function look() {
        const found = (${fn})(...arguments_);
        if (!found) return;
        observer.disconnect();
        done(true);
      }
      const arguments_ = [...arguments].slice(0, -1);
      observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      look();`;
    await this.send('POST', '/execute/async', { script, args }).catch((error) => {
      if (error.message.includes('before the unload event')) return this.until(fn, ...args);
      throw new Error(`${fn} ${JSON.stringify(args)}: ${error.message}`);
    });
  }

  /** Waits until one of these is there, with this text. */
  see = (css, text = '') => this.until((selector, part) => [...document.querySelectorAll(selector)].some((one) => one.innerText === undefined || one.innerText.includes(part)), css, text);

  painted = (seq) => this.until((least) => Number(document.documentElement.dataset.seq) >= least, seq);

  async element(css) {
    await this.see(css);
    return (await this.send('POST', '/element', { using: 'css selector', value: css }))[ELEMENT];
  }

  /** Waits until it can be pressed, and presses it with the mouse. */
  async click(css) {
    await this.until((selector) => document.querySelector(selector) && !document.querySelector(selector).disabled, css);
    await this.send('POST', `/element/${await this.element(css)}/click`);
  }

  type = async (css, text) => this.send('POST', `/element/${await this.element(css)}/value`, { text });

  press = (key) => this.send('POST', '/actions', { actions: [{ type: 'key', id: 'keys', actions: [{ type: 'keyDown', value: key }, { type: 'keyUp', value: key }] }] });

  async quit() {
    await this.send('DELETE', '').catch(() => {});
    for (const child of this.children) end(child);
  }
}
