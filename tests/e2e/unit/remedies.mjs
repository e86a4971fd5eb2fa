// Generates console/remedies.js from docs/ERRORS.md: `node tests/e2e/unit/remedies.mjs > console/remedies.js`.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const page = new URL('../../../docs/ERRORS.md', import.meta.url);

const IN_A_RUN = /^In a run: (its )?/;

/** What happened in a run, without what stands in brackets or after a semicolon, as a sentence of its own. */
function titleOf(meaning) {
  const words = meaning.replace(IN_A_RUN, (_, its) => (its ? "the run's " : '')).split(/ \(|; /)[0].replaceAll('`', '');
  return words[0].toUpperCase() + words.slice(1);
}

/** `{todo: {code: what to do}, titles: {code: what happened}}`; a refused request says itself what happened. */
export function remedies(text = readFileSync(page, 'utf8')) {
  const [ours] = text.split('\n## ');
  const found = { todo: {}, titles: {} };
  for (const line of ours.split('\n').filter((one) => /^\| `[a-z]/.test(one))) {
    const [code, , meaning, todo] = line.split('|').slice(1, -1).map((cell) => cell.trim());
    const name = code.replaceAll('`', '');
    found.todo[name] = todo;
    if (IN_A_RUN.test(meaning)) found.titles[name] = titleOf(meaning);
  }
  return found;
}

/** The whole file. */
export function source({ todo, titles } = remedies()) {
  const text = (value) => `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = (map) => Object.entries(map).map(([code, words]) => `  ${code}: ${text(words)},`);
  return [
    '// Of docs/ERRORS.md, made by tests/e2e/unit/remedies.mjs; a test compares it.',
    '',
    '/** What to do about a code. */',
    'export const REMEDIES = {', ...lines(todo), '};',
    '',
    '/** What happened, where a run ended in an error. */',
    'export const TITLES = {', ...lines(titles), '};',
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(source());
