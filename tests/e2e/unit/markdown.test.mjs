import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gist, inline, markdown, parse, webAddress } from '../../../console/markdown.js';

/** All elements within a node, as `name` or `a href`; and its text. */
function walk(node, found = { names: [], links: [], text: '' }) {
  if (node === null || node === undefined || node === false) return found;
  if (Array.isArray(node)) node.forEach((child) => walk(child, found));
  else if (typeof node !== 'object') found.text += String(node);
  else {
    found.names.push(node.type);
    if (node.type === 'a') found.links.push(node.props);
    walk(node.props.children, found);
  }
  return found;
}

const links = (text) => walk(markdown(text)).links.map((link) => link.href);

test('blocks', () => {
  const kinds = parse('# A\n\ntext\nmore\n\n- a\n  - b\n- c\n\n2. x\n3. y\n\n> q\n\n---\n\n```js\nx\n\ny\n```\n\n|a|b|\n|-|-:|\n|1|2|')
    .map((block) => block.kind);
  assert.deepEqual(kinds, ['heading', 'paragraph', 'list', 'list', 'quote', 'rule', 'code', 'table']);
  const [list] = parse('- a\n  - b\n\n  more\n- c');
  assert.deepEqual(list.entries.map((entry) => entry.map((block) => block.kind)), [['paragraph', 'list', 'paragraph'], ['paragraph']]);
  assert.equal(parse('3. c')[0].start, 3);
});

test('a task list has boxes that nobody can press', () => {
  const boxes = (node) => [node].flat(9).flatMap((one) => (one?.props ? [...(one.type === 'input' ? [one.props] : []), ...boxes(one.props.children)] : []));
  const of = (text) => boxes(markdown(text)).map(({ type, disabled, checked, 'aria-label': label }) => [type, disabled, checked, label]);
  const [done, open] = [['checkbox', true, true, 'Done'], ['checkbox', true, false, 'To do']];
  assert.deepEqual(of('- [ ] a\n- [x] b\n  - [X] c\n\n1. [ ] d'), [open, done, done, open]);
  assert.equal(walk(markdown('- [x] **b** and\n  more')).text.trim().replace(/\s+/g, ' '), 'b and more');
  for (const text of ['[ ] no list', '- [x](https://a.example)', '- [y] a', '- [x]a', '- a [x] b', '- # [x] a', '- `[x] a`']) assert.deepEqual(of(text), [], text);
});

test('emphasis, code and breaks; signs that mean nothing stay', () => {
  assert.deepEqual(inline('**b** _i_ ***x*** `c*` ~~s~~').map((part) => part.kind ?? part),
    ['strong', ' ', 'em', ' ', 'em', ' ', 'code', ' ', 'del']);
  for (const text of ['2 * 3 * 4', 'snake_case_name', '**open', 'a ` b', '[no link]', 'C:\\dir']) {
    assert.equal(walk(markdown(text)).names.filter((name) => ['em', 'strong', 'code', 'a'].includes(name)).length, 0, text);
  }
  assert.equal(walk(markdown('\\*a\\*')).text, '*a*');
});

test('what may scroll is reached with keys', () => {
  const focused = (node) => [node].flat(9).flatMap((one) => (one?.props ? [...(one.props.tabindex === '0' ? [one.props] : []), ...focused(one.props.children)] : []));
  assert.deepEqual(focused(markdown('```js\nx\n```\n\n| a |\n|---|\n| b |')).map((props) => [props.role, props['aria-label']]), [['group', 'Code'], ['group', 'Table']]);
});

test('HTML stands there as text', () => {
  const { names, text } = walk(markdown('<img src=x onerror=alert(1)>\n\n<script>alert(1)</script> **b**<svg/onload=x>'));
  assert.deepEqual(names.filter((name) => !['div', 'p', 'bdi', 'strong'].includes(name)), []);
  assert.match(text, /<img src=x onerror=alert\(1\)>/);
});

test('links lead to the web only, and show their host', () => {
  assert.deepEqual(links('[a](https://a.example/x_(1) "t") <http://b.example> https://c.example/x.'),
    ['https://a.example/x_(1)', 'http://b.example/', 'https://c.example/x']);
  for (const target of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc', '//x', '#/policy',
    '\u0001javascript:alert(1)', 'java\nscript:alert(1)', 'http:', 'https://']) {
    assert.deepEqual(links(`[click](${target})`), [], target);
  }
  const { text, links: [link] } = walk(markdown('[https://bank.example](https://evil.example/bank.example)'));
  assert.match(text, /\(evil\.example\)/);
  assert.equal(link.rel, 'noopener noreferrer');
  assert.equal(webAddress('https://user@аррle.example').host, 'xn--le-6kc8da.example');
});

test('images are links', () => {
  const { names, links: found } = walk(markdown('![a picture](https://i.example/p.png)'));
  assert.ok(!names.includes('img'));
  assert.equal(found[0].href, 'https://i.example/p.png');
});

test('hidden characters are marked within Markdown too', () => {
  const { names } = walk(markdown('**a\u202eb** `c\u200b`\n\n    x\n\n| a\u202e |\n|---|'));
  assert.equal(names.filter((name) => name === 'mark').length, 3);
});

test('a megabyte of any sign is read in reasonable time, however deep', () => {
  const started = process.cpuUsage().user;
  for (const sign of ['[', '*a ', '`', '](', '**', '_a', '|', '> ', '- ', 'a  ', 'http://', '```  ', ' ', '[a](http://x "', '***', '# ', '|-']) {
    const text = sign.repeat(Math.ceil(1_000_000 / sign.length));
    parse(text).forEach((block) => block.text && inline(block.text));
    parse(`-${text}x`);
  }
  assert.ok(process.cpuUsage().user - started < 30_000_000);
  markdown('> '.repeat(5_000));
  markdown('*a **b '.repeat(20_000));
});

test('on one line stands what Markdown says, without its marks', () => {
  const table = {
    '# Result\n\n**42** is `6 * 7`, see [the sum](https://sum.example/x).': 'Result 42 is 6 * 7, see the sum.',
    '- one\n- two\n  1. *three*\n\n> said\n> twice': 'one two three said twice',
    '```js\na * b * c\n```\n---\n': 'a * b * c ',
    '| a | b |\n|---|---|\n| **1** | 2 |': 'a b 1 2',
    'snake_case_name and 2 * 3 * 4': 'snake_case_name and 2 * 3 * 4',
    'first\nsecond': 'first second',
  };
  for (const [text, said] of Object.entries(table)) assert.equal(gist(text), said);
  assert.equal(gist({ a: '**b**' }), '{"a":"**b**"}');
  assert.equal(gist(null), '');
  assert.equal(gist('**long** '.repeat(1_000), 10), 'long long …');
});
