import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as form from '../../../console/form.js';

const schema = {
  type: 'object',
  required: ['orderId', 'amountEur'],
  properties: {
    orderId: { type: 'string', description: 'As printed' },
    amountEur: { type: 'number', minimum: 0 },
    count: { type: 'integer' },
    to: { enum: ['original card', 'store credit', 3] },
    day: { type: 'string', format: 'date' },
    notify: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
    note: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    matrix: { type: 'array', items: { type: 'array' } },
    either: { anyOf: [{ type: 'string' }, { type: 'null' }] },
  },
  $defs: { address: { type: 'object', properties: { city: { type: 'string' } } } },
};
const value = {
  orderId: '8852', amountEur: 214.5, count: 2, to: 'original card', day: '2026-11-23', notify: false, tags: ['a', 'b'],
  note: 'line\nline', address: { city: 'Oulu', zip: '90100' }, matrix: [[1]], either: null, surprise: { deep: true },
};
const fields = form.fieldsOf(schema, value);
const by = (name) => fields.find((field) => field.name === name);

test('each type has its control, and what has none is JSON', () => {
  assert.deepEqual(Object.fromEntries(fields.map((field) => [field.name, field.control])), {
    orderId: 'text', amountEur: 'number', count: 'number', to: 'select', day: 'date', notify: 'boolean', tags: 'lines',
    note: 'area', address: 'group', matrix: 'json', either: 'json', surprise: 'json',
  });
  assert.deepEqual(by('address').fields.map((field) => [field.name, field.control, field.unknown]), [['city', 'text', false], ['zip', 'text', true]]);
  assert.equal(by('surprise').unknown, true);
});

test('a value of another type than the schema wants is shown as JSON, as it is', () => {
  const [field] = form.fieldsOf({ properties: { n: { type: 'number' } } }, { n: '214.50' });
  assert.equal(field.control, 'json');
  assert.equal(form.written(field.control, field.value), '"214.50"');
  const [lines] = form.fieldsOf({ properties: { l: { type: 'array', items: { type: 'string' } } } }, { l: ['a\nb', ''] });
  assert.equal(lines.control, 'json');
  const [one] = form.fieldsOf({ properties: { e: { enum: ['a'] } } }, { e: 'z' });
  assert.deepEqual(one.options.map((option) => option.value), ['z', 'a']);
});

test('while it is edited a field keeps the control that it had at first', () => {
  const properties = {
    short: { type: 'string' }, long: { type: 'string' }, code: { type: 'number' }, given: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } },
    place: { type: 'object', properties: { street: { type: 'string' } } },
  };
  const base = { short: 'x', long: 'y'.repeat(80), code: '7', tags: [], other: null };
  const controls = (now) => Object.fromEntries(form.fieldsOf({ properties }, { ...base, ...now }, base)
    .flatMap((field) => [field, ...field.fields ?? []]).map((field) => [field.name, field.control]));
  const first = { short: 'text', long: 'area', code: 'json', given: 'text', tags: 'lines', place: 'group', other: 'json' };
  assert.deepEqual(controls({}), first);
  const typed = { short: 'x'.repeat(80), long: 'y', code: 7, given: 'z'.repeat(80), tags: ['a'], place: { street: 'w'.repeat(80) }, other: 'null and void' };
  assert.deepEqual(controls(typed), { ...first, street: 'text' });
  // What was edited as JSON is shown as the resulting fields.
  assert.deepEqual(controls({ short: 5, tags: [1] }), { ...first, short: 'json', tags: 'json' });
});

test('no schema, a foreign reference and a circle of references are no harm', () => {
  assert.deepEqual(form.fieldsOf(undefined, { a: 'x', n: 1 }).map((field) => field.control), ['text', 'number']);
  assert.equal(form.fieldsOf(true, [1, 2])[0].control, 'json');
  assert.equal(form.fieldsOf({ $ref: 'https://evil.example/s' }, { a: 1 })[0].control, 'number');
  const circle = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } };
  assert.equal(form.fieldsOf(circle, { a: 1 }).length, 1);
  let deep = { type: 'object', properties: { x: { type: 'string' } } };
  let inner = { x: 'y' };
  for (let i = 0; i < 6; i += 1) [deep, inner] = [{ type: 'object', properties: { o: deep } }, { o: inner }];
  let [level] = form.fieldsOf(deep, inner);
  for (let i = 0; i < 3; i += 1) [level] = level.fields;
  assert.equal(level.control, 'json');
});

test('types are kept', () => {
  assert.deepEqual(form.read('number', ' 214.50 '), { value: 214.5 });
  for (const wrong of ['', '1,5', '0x10', '1e', 'NaN', 'Infinity', '--1', '01', '1e999', '9007199254740993']) {
    assert.ok(form.read('number', wrong).error, wrong);
  }
  assert.ok(form.read('number', '1.5', true).error);
  assert.deepEqual(form.read('lines', 'a\r\n\nb'), { value: ['a', 'b'] });
  assert.deepEqual(form.read('json', '{"a":[1]}'), { value: { a: [1] } });
  for (const wrong of ['{', '9007199254740993', '{"a":[1,{"b":-9007199254740993}]}', '[1e999]']) assert.ok(form.read('json', wrong).error, wrong);
  assert.deepEqual(form.read('area', '1'), { value: '1' });
});

test('an edit keeps everything else, in its order', () => {
  let edited = form.begin(schema, value);
  edited = form.type(edited, by('amountEur'), '199.00');
  assert.deepEqual(edited.value, { ...value, amountEur: 199 });
  assert.deepEqual(Object.keys(edited.value), Object.keys(value));
  assert.deepEqual(form.changes(edited), [{ path: ['amountEur'], was: 214.5, now: 199 }]);
  assert.equal(form.withWords(edited), 'with 199.00');
  assert.deepEqual(form.changedField(edited, by('amountEur')), { was: 214.5 });
  assert.equal(form.changedField(edited, by('orderId')), null);
  edited = form.type(edited, by('address').fields[0], 'Turku');
  assert.deepEqual(edited.value.address, { city: 'Turku', zip: '90100' });
  assert.equal(form.withWords(edited), 'with 2 changes');
});

test('texts never stand on the button', () => {
  const edited = form.type(form.begin(schema, value), by('orderId'), 'Reject');
  assert.equal(form.withWords(edited), 'with 1 change');
});

test('what cannot be read keeps the last value and says so', () => {
  let edited = form.type(form.begin(schema, value), by('amountEur'), '19x');
  assert.equal(form.hasErrors(edited), true);
  assert.equal(edited.value.amountEur, 214.5);
  assert.equal(edited.typed['/amountEur'], '19x');
  edited = form.type(edited, by('amountEur'), '19');
  assert.equal(form.hasErrors(edited), false);
});

test('an absent member can be given and left out again', () => {
  const { notify: _, ...short } = value;
  const absent = form.fieldsOf(schema, short).find((field) => field.name === 'notify');
  assert.equal(absent.absent, true);
  const given = form.give(form.begin(schema, short), absent);
  assert.equal(given.value.notify, false);
  assert.deepEqual(form.changedField(given, absent), {});
  assert.deepEqual(form.leaveOut(given, absent).value, short);
});

test('members called __proto__ and constructor are members', () => {
  const hostile = JSON.parse('{"__proto__": {"polluted": true}, "constructor": "x", "a/b~c": 1}');
  const shown = form.fieldsOf({}, hostile);
  assert.deepEqual(shown.map((field) => field.key), ['/__proto__', '/constructor', '/a~1b~0c']);
  const edited = form.type(form.begin({}, hostile), shown[2], '2');
  assert.equal(JSON.stringify(edited.value), '{"__proto__":{"polluted":true},"constructor":"x","a/b~c":2}');
  const json = form.type(edited, shown[0], '{"polluted":1}');
  assert.equal(JSON.stringify(json.value), '{"__proto__":{"polluted":1},"constructor":"x","a/b~c":2}');
  assert.equal({}.polluted, undefined);
});

test('numbers that a browser rounds are noticed', () => {
  assert.equal(form.hasRounded(JSON.parse('{"a": [12345678901234567890]}')), true);
  assert.equal(form.hasRounded({ a: JSON.parse('1e999') }), true);
  assert.equal(form.hasRounded({ a: [0.1, 9007199254740991, 1e-300] }), false);
});

test('arguments of a megabyte make their form quickly', () => {
  const large = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, 'x'.repeat(50)]));
  const edited = form.type(form.begin({}, large), form.fieldsOf({}, large)[7], 'y');
  assert.equal(form.changes(edited).length, 1);
});
