// A form for a JSON value, from its JSON Schema. Types are kept: a number field gives a number. Members unknown to the
// schema are kept and shown. What has no control is edited as JSON. Makes no nodes.

import { at, diff, pointer, put, same, without } from './diff.js';

const DEEPEST = 3;
const LONG_TEXT = 60;
const DAY = /^\d{4}-\d\d-\d\d$/;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** Follows a schema's reference within the document; `{}` if missing or external. */
function resolved(schema, root, steps = 0) {
  if (!isObject(schema)) return {};
  if (typeof schema.$ref !== 'string') return schema;
  if (!schema.$ref.startsWith('#/') || steps > 8) return {};
  const path = schema.$ref.slice(2).split('/').map((step) => step.replace(/~1/g, '/').replace(/~0/g, '~'));
  return resolved(at(root, path), root, steps + 1);
}

/**
 * The fields of a value: `{path, key, name, title?, control, value, description?, options?, integer?, required, unknown, absent,
 * fields?}`. Controls: text area number boolean date select lines group json. An absent field may be added. A field keeps
 * the control of its value in `base`, the value when the edit began.
 */
export function fieldsOf(schema, value, base = value, root = schema, path = []) {
  const rules = resolved(schema, root);
  if (!isObject(value)) return [field(rules, value, base, root, path, {})];
  const known = isObject(rules.properties) ? rules.properties : {};
  const required = Array.isArray(rules.required) ? rules.required : [];
  const names = [...new Set([...Object.keys(known), ...Object.keys(value)])];
  return names.map((name) => {
    const isKnown = Object.hasOwn(known, name);
    const more = { required: required.includes(name), unknown: !isKnown && isObject(rules.properties) };
    return field(isKnown ? known[name] : {}, at(value, [name]), at(base, [name]), root, [...path, name], more);
  });
}

export const keysOf = (fields) => fields.flatMap((one) => (one.fields ? keysOf(one.fields) : one.absent ? [] : one.key));

function field(schema, value, base, root, path, { required = false, unknown = false }) {
  const rules = resolved(schema, root);
  const absent = value === undefined;
  const controlFor = (given) => controlOf(rules, given === undefined ? emptyOf(rules) : given, path.length, root);
  // Typing must not replace the focused control; a value edited as JSON may no longer fit it.
  const first = controlFor(base);
  const control = absent || fits(first, value) ? first : controlFor(value);
  return {
    path,
    key: pointer(path),
    name: path.at(-1) ?? '',
    title: typeof rules.title === 'string' ? rules.title : undefined,
    control,
    value,
    required,
    unknown,
    absent,
    description: typeof rules.description === 'string' ? rules.description : undefined,
    options: control === 'select' ? optionsOf(rules, value) : undefined,
    integer: rules.type === 'integer',
    fields: control === 'group' && !absent ? fieldsOf(rules, value, base ?? {}, root, path) : undefined,
  };
}

const isScalar = (value) => value === null || typeof value !== 'object';

function controlOf(rules, value, depth, root) {
  if (Array.isArray(rules.enum) && rules.enum.every(isScalar) && isScalar(value)) return 'select';
  if (rules.anyOf || rules.oneOf || rules.allOf || Array.isArray(rules.type)) return 'json';
  switch (rules.type ?? typeOf(value)) {
    case 'string': return typeof value === 'string' ? textControl(rules, value) : 'json';
    case 'number': case 'integer': return typeof value === 'number' ? 'number' : 'json';
    case 'boolean': return typeof value === 'boolean' ? 'boolean' : 'json';
    case 'array': return isLines(rules, value, root) ? 'lines' : 'json';
    case 'object': return isObject(value) && depth > 0 && depth <= DEEPEST && isObject(rules.properties) ? 'group' : 'json';
    default: return 'json';
  }
}

function typeOf(value) {
  if (Array.isArray(value)) return 'array';
  return value === null ? 'null' : typeof value;
}

function textControl(rules, value) {
  if (rules.format === 'date' && DAY.test(value)) return 'date';
  return value.length > LONG_TEXT || value.includes('\n') ? 'area' : 'text';
}

// One line each, if that loses nothing.
function isLines(rules, value, root) {
  const items = resolved(rules.items, root);
  const isOfTexts = items.type === 'string' && !items.enum;
  return isOfTexts && fits('lines', value);
}

/** Whether a control can show a value; typed text always fits. */
function fits(control, value) {
  switch (control) {
    case 'json': return true;
    case 'select': return isScalar(value);
    case 'group': return isObject(value);
    case 'number': case 'boolean': return typeof value === control;
    case 'date': return DAY.test(value);
    case 'lines': return Array.isArray(value) && value.every((entry) => typeof entry === 'string' && entry !== '' && !entry.includes('\n'));
    default: return typeof value === 'string';
  }
}

// A value that is no option is shown unchanged.
function optionsOf(rules, value) {
  const isKnown = value === undefined || rules.enum.some((option) => same(option, value));
  return (isKnown ? rules.enum : [value, ...rules.enum]).map((option) => (
    { value: option, label: typeof option === 'string' ? option : JSON.stringify(option) }));
}

/** The first value of an absent field. */
function emptyOf(rules) {
  if (rules.default !== undefined) return rules.default;
  if (Array.isArray(rules.enum)) return rules.enum[0];
  switch (rules.type) {
    case 'string': return rules.format === 'date' ? '2000-01-01' : '';
    case 'number': case 'integer': return 0;
    case 'boolean': return false;
    case 'array': return [];
    case 'object': return {};
    default: return null;
  }
}

/** Typed text as a value of the field's type: `{value}` or `{error}`. */
export function read(control, text, integer = false) {
  switch (control) {
    case 'number': return readNumber(text.trim(), integer);
    case 'lines': return { value: text.split(/\r?\n/).filter((line) => line !== '') };
    case 'json': return readJson(text);
    case 'date': return DAY.test(text) ? { value: text } : { error: 'A day is needed.' };
    default: return { value: text };
  }
}

function readNumber(text, integer) {
  if (text === '') return { error: 'A number is needed.' };
  if (!NUMBER.test(text)) return { error: 'This is not a number: digits, with a point before decimals.' };
  const value = Number(text);
  if (integer && !Number.isInteger(value)) return { error: 'A whole number is needed.' };
  return isExact(value) ? { value } : { error: ROUNDED };
}

function readJson(text) {
  try {
    const value = JSON.parse(text);
    return hasRounded(value) ? { error: ROUNDED } : { value };
  } catch (error) {
    return { error: `This is not JSON: ${error.message}` };
  }
}

export const ROUNDED = 'A browser cannot hold a number of so many digits: it would be sent rounded.';
const isExact = (number) => (Number.isInteger(number) ? Number.isSafeInteger(number) : Number.isFinite(number));

/** Whether some number exceeds a browser's precision, and may be shown rounded. */
export function hasRounded(value) {
  if (typeof value === 'number') return !isExact(value);
  return value !== null && typeof value === 'object' && Object.values(value).some(hasRounded);
}

export function written(control, value) {
  switch (control) {
    case 'lines': return value.join('\n');
    case 'json': case 'group': return JSON.stringify(value, null, 2);
    default: return String(value);
  }
}

/* A form being edited: `{schema, base, value, typed, errors}`. `typed` and `errors` are by key. */

export const begin = (schema, base) => ({ schema: schema ?? {}, base, value: base, typed: {}, errors: {} });

/** Text was typed; the value changes if it can be parsed. */
export function type(form, field, text) {
  const { value, error } = read(field.control, text, field.integer);
  const typed = { ...form.typed, [field.key]: text };
  if (error) return { ...form, typed, errors: { ...form.errors, [field.key]: error } };
  return { ...choose(form, field, value), typed };
}

/** The same for an optional field: an empty text removes it. */
export const typeOptional = (form, field, text) => {
  if (text !== '') return type(form, field, text);
  return at(form.value, field.path) === undefined ? { ...form, ...cleared(form, field) } : leaveOut(form, field);
};

export function choose(form, field, value) {
  const { [field.key]: _, ...errors } = form.errors;
  return { ...form, value: put(form.value, field.path, value), errors };
}

export function give(form, field) {
  const rules = ruleAt(form.schema, field.path);
  return { ...form, value: put(form.value, field.path, emptyOf(rules)) };
}

export const leaveOut = (form, field) => ({ ...form, value: without(form.value, field.path), ...cleared(form, field) });

/** Forgets what was typed into a field and its members. */
function cleared(form, field) {
  const isOther = (key) => key !== field.key && !key.startsWith(`${field.key}/`);
  const kept = (map) => Object.fromEntries(Object.entries(map).filter(([key]) => isOther(key)));
  return { typed: kept(form.typed), errors: kept(form.errors) };
}

function ruleAt(schema, path) {
  return path.reduce((rules, step) => resolved(at(resolved(rules, schema), ['properties', step]), schema), schema);
}

export const hasErrors = (form) => Object.keys(form.errors).length > 0;

export const changes = (form) => diff(form.base, form.value);

/** `{was}` of a changed field, without `was` if new; null if unchanged. */
export function changedField(form, field) {
  const was = at(form.base, field.path);
  const now = at(form.value, field.path);
  if (was === now || (was !== undefined && now !== undefined && same(was, now))) return null;
  return was === undefined ? {} : { was };
}

/**
 * The label of the approving button: "with 199.00" for one changed number, as typed; else the number of
 * changes. Never a text.
 */
export function withWords(form) {
  const found = changes(form);
  const [only] = found;
  if (found.length === 1 && 'now' in only && ['number', 'boolean'].includes(typeof only.now)) {
    const typed = form.typed[pointer(only.path)];
    return `with ${typeof only.now === 'number' && typed ? typed.trim() : String(only.now)}`;
  }
  return found.length === 1 ? 'with 1 change' : `with ${found.length} changes`;
}
