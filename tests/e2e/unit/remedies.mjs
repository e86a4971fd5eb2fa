// Generates console/remedies.js from docs/ERRORS.md: `node tests/e2e/unit/remedies.mjs > console/remedies.js`.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const page = new URL('../../../docs/ERRORS.md', import.meta.url);

const IN_A_RUN = /^In a run: (its )?/;

/**
 * Codes whose remedy no view shows. The page shows those of runs, of refused reads and of refused answers: not of requests
 * that it never sends, of refusals that it shows in the server's words alone, or that it has words of its own for.
 */
export const NOT_SHOWN = new Set([
  'method_not_allowed', 'schedule_exists', 'thread_exists', 'key_overlap', 'server_exists', 'not_quarantined', 'suspended', 'on_hold',
  'unsupported_media_type', 'import_invalid', 'state_too_large', 'headers_too_large',
  'thread_busy', 'key_exists', 'finished_item', 'item_in_progress', 'plan_not_editable', 'nothing_to_pause', 'precondition_failed',
  'precondition_required', 'plan_invalid', 'too_many_items', 'too_many_documents', 'queue_full',
  'not_an_approver', 'four_eyes', 'already_resolved', 'approval_mismatch', 'run_cancelled', 'run_finished', 'expired',
]);

/** What happened in a run, without what stands in brackets or after a semicolon, as a sentence of its own. */
function titleOf(meaning) {
  const words = meaning.replace(IN_A_RUN, (_, its) => (its ? "the run's " : '')).split(/ \(|; /)[0].replaceAll('`', '');
  return words[0].toUpperCase() + words.slice(1);
}

/** A remedy beside a refusal whose message and mistakes are shown, so that their members are not named. */
const shown = (todo) => todo.replace(/`(?:detail|message)`/g, 'the message').replace('`errors` lists each mistake', 'Correct each mistake');

/** `{todo: {code: what to do}, titles: {code: what happened}}` of the codes that are shown; a refused request says itself what happened. */
export function remedies(text = readFileSync(page, 'utf8')) {
  const [ours] = text.split('\n## ');
  const found = { todo: {}, titles: {} };
  for (const line of ours.split('\n').filter((one) => /^\| `[a-z]/.test(one))) {
    const [code, , meaning, todo] = line.split('|').slice(1, -1).map((cell) => cell.trim());
    const name = code.replaceAll('`', '');
    if (!NOT_SHOWN.has(name)) found.todo[name] = shown(todo);
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
    '/** What to do about a code, where a view shows it. */',
    'export const REMEDIES = {', ...lines(todo), '};',
    '',
    '/** What happened, where a run ended in an error. */',
    'export const TITLES = {', ...lines(titles), '};',
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(source());
