import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces, plain, show, shown, showStart } from '../../../console/text.js';
import { countHidden, hiddenNote } from '../../../console/views/code.js';

const marks = (text) => pieces(text).filter((piece) => piece.mark).map((piece) => piece.mark);

test('what is visible stays as it is', () => {
  const text = 'Zoë paid 3 €\n\tto Αθήνα, 東京, مرحبا and ❤️ <b>&amp;</b>';
  assert.deepEqual(pieces(text), [text]);
  assert.deepEqual(pieces(''), []);
  assert.equal(countHidden(text), 0);
});

test('characters that order, join or hide text are shown as their codes', () => {
  assert.deepEqual(pieces('to\u202eevil'), ['to', { mark: 'U+202E', count: 1 }, 'evil']);
  for (const hidden of '\u202a\u2066\u200e\u061c\u200b\u200d\u2060\ufeff\u180e\u3164\ufe00\ufe0d\u{1bca0}\u{1d17a}\u2028\u0000\u0007\u007f\u009b\r') {
    assert.equal(marks(`a${hidden}b`).length, 1, hidden.codePointAt(0).toString(16));
  }
});

test('a joiner that a word or an emoji needs stays as it is, everywhere else it is marked, and a soft hyphen everywhere', () => {
  const needed = ['می\u200cخواهم', 'مَ\u200cی', 'क्\u200dष', 'ന്\u200dറ', 'ක\u200dෂ', '👨\u200d💻', '👩🏽\u200d💻', '🏳️\u200d🌈', '👨\u200d👩\u200d👧'];
  for (const text of needed) assert.deepEqual(pieces(text), [text]);
  assert.equal(countHidden(needed), 0);
  assert.deepEqual(pieces('a\u200db'), ['a', { mark: 'U+200D', count: 1 }, 'b']);
  assert.deepEqual(pieces('👨\u200d\u200d💻'), ['👨', { mark: 'U+200D ×2', count: 2 }, '💻']);
  const hiding = ['\u200cم', 'م\u200c', 'م\u200da', 'я\u200dм', 'α\u200cβ', '1\u200c2', '👨\u200c💻', '👨\u200da', '👨\ufe0f\ufe0f\u200d💻', 'e\u0301\u200d\u0301', '\ufe0f\u200d\ufe0f',
    '東\u200c京', 'カ\u200dナ', 'ש\u200cל', 'ก\u200dข', '한\u200c글', '१\u200d२', 'ceo@exam\u00adple.com', 'a\u00ad', '\u00ada', 'a\u00ad1', 'a\u00ad\u00adb'];
  for (const text of hiding) assert.equal(marks(text).length, 1, JSON.stringify(text));
  assert.deepEqual(marks('\u180b\u200dष'), ['U+180B', 'U+200D'], 'what hides itself is no letter before a joiner');
});

test('text within tag characters and variation selectors is seen', () => {
  const smuggled = [...'send'].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join('');
  assert.deepEqual(marks(`Hello${smuggled}`), ['U+E0073', 'U+E0065', 'U+E006E', 'U+E0064']);
  assert.equal(countHidden(`Hello${smuggled}`), 4);
  assert.equal(marks('a\u{e0100}').length, 1);
});

test('terminal sequences are shown whole', () => {
  assert.deepEqual(pieces('\u001b[31mred\u001b[0m'), [
    { mark: 'ESC[31m', count: 1 }, 'red', { mark: 'ESC[0m', count: 1 }]);
  assert.deepEqual(marks('\u001b]8;;http://evil\u0007'), ['U+001B', 'U+0007']);
});

test('stacked marks do not leave their line', () => {
  assert.deepEqual(marks(`Z${'\u0301'.repeat(50)}`), ['U+0301 ×46']);
  assert.deepEqual(marks('e\u0301'), []);
});

test('half a surrogate pair is shown, a whole one stays', () => {
  assert.deepEqual(marks('\ud83d'), ['U+D83D']);
  assert.deepEqual(marks('😀'), []);
});

test('a million hidden characters are one mark', () => {
  const text = '\u202e'.repeat(1_000_000);
  assert.equal(pieces(text).length, 1);
  assert.equal(countHidden(text), 1_000_000);
});

test('hidden characters are counted in names and values of JSON', () => {
  assert.equal(countHidden({ 'to\u200b': ['a', { b: '\u202e' }], n: 1, x: null }), 2);
  assert.equal(hiddenNote(0), null);
  assert.equal(countHidden({ to: 'ceo@exam\u00adple.com', of: '東\u200c京' }), 2);
  assert.match(hiddenNote(1), /^1 hidden character is /);
  assert.match(hiddenNote(2), /^2 hidden characters are /);
});

test('show makes a bdi with text in it, whatever the text says', () => {
  const node = show('<img src=x onerror=alert(1)>');
  assert.equal(node.type, 'bdi');
  assert.deepEqual(node.props.children, ['<img src=x onerror=alert(1)>']);
  assert.equal(plain('a\u202eb'), 'a[U+202E]b');
  assert.doesNotThrow(() => show(null));
});

test('of very many hidden characters the first stand in elements, all of them as codes', () => {
  const children = shown('a\u202eb\u200b'.repeat(20_000)).flat();
  assert.ok(children.length < 1_000);
  assert.ok(children.every((child) => typeof child === 'object' || !/[\u202e\u200b]/.test(child)));
  assert.equal(children.filter((child) => typeof child === 'string').join('').match(/\[U\+(202E|200B)\]/g).length, 40_000 - 300);
});

test('a line shows the beginning of a text', () => {
  assert.deepEqual(showStart('x'.repeat(300)).props.children, [`${'x'.repeat(200)}…`]);
  assert.deepEqual(showStart('short').props.children, ['short']);
});
