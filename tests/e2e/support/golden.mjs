// Recorded logs: one line per observation, with a digest of the server's state as of it.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const FOLDER = fileURLToPath(new URL('../../golden/console', import.meta.url));

/** JSON with the members of objects in the order of their names. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).filter((name) => value[name] !== undefined).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}

export const digest = (state) => createHash('sha256').update(canonical(state)).digest('hex');

/** `[{name, log: [{observation, state}]}]` */
export function goldens() {
  return readdirSync(FOLDER).filter((file) => file.endsWith('.ndjson')).sort().map((file) => {
    const lines = readFileSync(path.join(FOLDER, file), 'utf8').trim().split('\n');
    return { name: file.replace('.ndjson', ''), log: lines.map((line) => JSON.parse(line)) };
  });
}
