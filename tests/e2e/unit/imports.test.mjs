// Every name that a module imports is exported by the module it names; no build step would find a mistake.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../console', import.meta.url));
const read = (file) => readFileSync(file, 'utf8');
const modules = readdirSync(ROOT, { recursive: true }).filter((file) => file.endsWith('.js') && !file.startsWith('vendor')).map((file) => path.join(ROOT, file));

function exported(file) {
  const text = read(file);
  const declared = [...text.matchAll(/export (?:async )?(?:function|const|let|class) (\w+)/g)].map((match) => match[1]);
  const listed = [...text.matchAll(/export ?\{([^}]*)\}/g)].flatMap((match) => match[1].split(',').map((name) => name.trim().split(' as ').pop()));
  return new Set([...declared, ...listed]);
}

test('every import is exported', () => {
  const missing = [];
  for (const file of modules) {
    for (const [, names, from] of read(file).matchAll(/import (?:\{([^}]*)\}|\* as \w+) from '([^']+)'/g)) {
      const target = path.join(path.dirname(file), from);
      const has = existsSync(target) ? exported(target) : new Set();
      const wants = (names ?? '').split(',').map((name) => name.trim().split(' as ')[0]).filter(Boolean);
      if (!existsSync(target)) missing.push(`${file}: ${from}`);
      missing.push(...wants.filter((name) => !has.has(name)).map((name) => `${file}: ${name} of ${from}`));
    }
  }
  assert.deepEqual(missing, []);
});

test('every view that is asked for later is exported where it says', () => {
  const file = path.join(ROOT, 'views/later.js');
  const named = [...read(file).matchAll(/later\('(\w+)', (?:\w+\()?\(\) => import\('([^']+)'\)/g)];
  assert.equal(named.length, read(file).split('import(').length - 1);
  assert.deepEqual(named.filter(([, name, from]) => !exported(path.join(ROOT, 'views', from)).has(name)).map(([all]) => all), []);
});

const imported = (file) => [...read(file).matchAll(/^(?:import|\} from)[^;(]*?'([^']+)';$/gm)].map(([, from]) => path.join(path.dirname(file), from));

/** The modules that run before this one does. */
function before(file) {
  const found = new Set([file]);
  for (const one of found) for (const next of one.includes('vendor') ? [] : imported(one)) found.add(next);
  return [...found].slice(1).map((one) => path.relative(ROOT, one)).sort();
}

test('index.html names all modules of the first view, so that they are requested at once', () => {
  const preloaded = [...read(path.join(ROOT, 'index.html')).matchAll(/<link rel="modulepreload" href="console\/([^"]+)">/g)].map(([, file]) => file);
  assert.deepEqual(preloaded.sort(), before(path.join(ROOT, 'app.js')));
});

test('the tab of a question names all that it needs beside them, for the same reason', () => {
  const tab = path.join(ROOT, 'views/question/tab.js');
  const first = [...before(path.join(ROOT, 'app.js')), 'app.js'];
  const named = imported(tab).map((file) => path.relative(ROOT, file));
  assert.deepEqual(named.filter((file) => !first.includes(file)).sort(), before(tab).filter((file) => !first.includes(file)));
});

test('index.html names what there is, and no more than is needed to begin', () => {
  const page = read(path.join(ROOT, 'index.html'));
  const named = [...page.matchAll(/(?:href|src)="console\/([^"]+)"/g)].map((match) => match[1]);
  assert.deepEqual(named.filter((file) => !existsSync(path.join(ROOT, file))), []);
  const styles = readdirSync(path.join(ROOT, 'css')).map((file) => `css/${file}`).filter((file) => !read(path.join(ROOT, 'views/later.js')).includes(file));
  assert.deepEqual(styles.filter((file) => !named.includes(file)), []);
  assert.doesNotMatch(page, /https?:/);
});
