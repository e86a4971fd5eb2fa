// What the stories of several clients share.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';

/** Posts JSON. */
export const post = (url, body) => fetch(url, {
  method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
});

/** Every line of every golden file of a folder: `check` says why it does not fit, if it does not. */
export async function checkGolden(folder, check) {
  for (const file of readdirSync(folder)) {
    for (const line of readFileSync(`${folder}/${file}`, 'utf8').trim().split('\n')) {
      const wrong = await check(JSON.parse(line));
      assert.equal(wrong, undefined, `${file}: ${line}: ${wrong}`);
    }
  }
}

/** Tells each story; the first that fails ends the program. */
export async function tell(stories) {
  for (const [name, story] of Object.entries(stories)) {
    try {
      await story();
    } catch (error) {
      console.error(`${name}:`, error);
      process.exit(1);
    }
  }
  console.log('done');
}
