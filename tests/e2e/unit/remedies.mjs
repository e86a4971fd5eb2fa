// Makes console/remedies.js of docs/ERRORS.md: `node tests/e2e/unit/remedies.mjs > console/remedies.js`.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const page = new URL('../../../docs/ERRORS.md', import.meta.url);

const cellsOf = (line) => line.split('|').slice(1, -1).map((cell) => cell.trim());
const bare = (cell) => cell.replaceAll('`', '');

/** The meaning without what stands in brackets or after a semicolon, as a sentence of its own. */
function titleOf(meaning) {
  const words = meaning.replace(/^In a run: its /, "the run's ").replace(/^In a run: /, '').split(/ \(|; /)[0];
  // A name of the settings is written small.
  return bare(words.startsWith('`') ? words : words[0].toUpperCase() + words.slice(1));
}

/** `{code: [title, what to do]}` of all tables of codes; the second is absent where a table has no such column. */
export function remedies(text = readFileSync(page, 'utf8')) {
  const [ours] = text.split('\n## Between agents');
  const found = {};
  for (const line of ours.split('\n').filter((one) => /^\| `?[a-z]/.test(one))) {
    const cells = cellsOf(line);
    if (cells[0] === 'code') continue;
    const [meaning, todo] = cells.length === 4 ? [cells[2], cells[3]] : [cells[1]];
    for (const code of bare(cells[0]).split(', ')) found[code] ??= todo ? [titleOf(meaning), todo] : [titleOf(meaning)];
  }
  return found;
}

/** The whole file. */
export function source(found = remedies()) {
  const text = (value) => `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = Object.entries(found).map(([code, words]) => `  ${code}: [${words.map(text).join(', ')}],`);
  return [
    '// What each code of docs/ERRORS.md means, and what to do about it. Made by tests/e2e/unit/remedies.mjs; a test compares it.',
    '',
    '/** `code: [what happened, what to do]`; the second is absent where the model is told, and nobody need do anything. */',
    'export const REMEDIES = {',
    ...lines,
    '};',
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(source());
