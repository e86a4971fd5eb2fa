// Models' answers as Markdown: paragraphs, headings, lists, tables, quotes, code, emphasis, links. HTML stays text, images
// become links, and links lead to http and https only, with their host beside them.
// `parse` is pure and takes linear time; `markdown` makes nodes of it.

import { html } from './vendor/preact-htm.js';
import { brief, plain, show, shown } from './text.js';
import { Button, Copy } from './views/parts.js';

const DEEPEST = 8;
// Unambiguous patterns: the time is linear in the length of a line.
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t](.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ENTRY = /^( {0,3})([-*+]|\d{1,9}[.)])( +)(.*)$/;
const DIVIDER = /^\|?:?-+:?(\|:?-+:?)*\|?$/;

/** The blocks of a text: `{kind, …}`, with `text` for inline parts not yet parsed. */
export function parse(text, depth = 0) {
  const lines = String(text).replace(/\r\n?/g, '\n').split('\n');
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const next = lines[at].trim() === '' ? { to: at + 1 } : block(lines, at, depth);
    if (next.block) blocks.push(next.block);
    at = next.to;
  }
  return blocks;
}

function block(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { to: at + 1, block: { kind: 'heading', level: heading[1].length, text: heading[2].trim() } };
  if (RULE.test(line)) return { to: at + 1, block: { kind: 'rule' } };
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < DEEPEST && ENTRY.test(line)) return list(lines, at, depth);
  if (line.includes('|') && DIVIDER.test((lines[at + 1] ?? '').replace(/\s+/g, ''))) return table(lines, at);
  return paragraph(lines, at, depth);
}

function fenced(lines, at, [, fence, language]) {
  const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  let to = at + 1;
  while (to < lines.length && !end.test(lines[to])) to += 1;
  return { to: to + 1, block: { kind: 'code', language: language.trim(), text: lines.slice(at + 1, to).join('\n') } };
}

function quote(lines, at, depth) {
  let to = at;
  while (to < lines.length && QUOTE.test(lines[to])) to += 1;
  const inside = lines.slice(at, to).map((line) => line.replace(QUOTE, '')).join('\n');
  return { to, block: { kind: 'quote', blocks: parse(inside, depth + 1) } };
}

// Items of one kind; text that is indented below an item, or follows without a blank line, belongs to it.
function list(lines, at, depth) {
  const first = ENTRY.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const entries = [];
  let to = at;
  while (to < lines.length) {
    const entry = ENTRY.exec(lines[to]);
    if (!entry || /\d/.test(entry[2]) !== ordered || RULE.test(lines[to])) break;
    const width = entry[1].length + entry[2].length + Math.min(entry[3].length, 4);
    const end = entryEnd(lines, to + 1, width);
    const inside = [entry[4], ...lines.slice(to + 1, end).map((line) => outdent(line, width))];
    entries.push(tasked(parse(inside.join('\n'), depth + 1)));
    to = end;
    while (to < lines.length && lines[to].trim() === '' && ENTRY.test(lines[to + 1] ?? '')) to += 1;
  }
  return { to, block: { kind: 'list', ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, entries } };
}

/** An item of a task list: its paragraph is `done` or not. */
function tasked(blocks) {
  const [first] = blocks;
  const box = first?.kind === 'paragraph' && /^\[([ x])\]\s+/i.exec(first.text);
  if (box) Object.assign(first, { done: box[1] !== ' ', text: first.text.slice(box[0].length) });
  return blocks;
}

function entryEnd(lines, from, width) {
  let to = from;
  let wasBlank = false;
  for (; to < lines.length; to += 1) {
    const line = lines[to];
    const isBlank = line.trim() === '';
    const isIndented = line.length - line.trimStart().length >= Math.min(width, 2);
    if (!isBlank && !isIndented && (wasBlank || startsBlock(line))) break;
    wasBlank = isBlank;
  }
  while (to > from && lines[to - 1].trim() === '') to -= 1;
  return to;
}

const outdent = (line, width) => line.slice(Math.min(width, line.length - line.trimStart().length));

const startsBlock = (line) => [FENCE, HEADING, RULE, QUOTE, ENTRY].some((pattern) => pattern.test(line));

function table(lines, at) {
  const head = cells(lines[at]);
  let to = at + 2;
  while (to < lines.length && lines[to].includes('|') && lines[to].trim() !== '') to += 1;
  const align = cells(lines[at + 1]).map((cell) => (cell.endsWith(':') ? 'end' : 'start'));
  const rows = lines.slice(at + 2, to).map((line) => cells(line).slice(0, head.length));
  return { to, block: { kind: 'table', align, head, rows } };
}

const cells = (line) => line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '')
  .split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));

function paragraph(lines, at, depth) {
  let to = at + 1;
  while (to < lines.length && lines[to].trim() !== '' && (depth >= DEEPEST || !startsBlock(lines[to]))) to += 1;
  return { to, block: { kind: 'paragraph', text: lines.slice(at, to).map((line) => line.trimStart()).join('\n') } };
}

/* Within a line. */

// Of an address.
const LONGEST = 2_000;
const MARKS = ['***', '**', '__', '*', '_', '~~'];
const KIND = { '***': 'strong', '**': 'strong', __: 'strong', '*': 'em', _: 'em', '~~': 'del' };

/**
 * The parts of a line: strings, and `{kind, …}`. An unpaired mark is text. `twins` caches the next position of each
 * mark, so that nothing is searched twice.
 */
export function inline(text, depth = 0) {
  const parts = [];
  const twins = new Map();
  let plainFrom = 0;
  let at = 0;
  const put = (to, found) => {
    if (found.at > plainFrom) parts.push(text.slice(plainFrom, found.at));
    parts.push(found.part);
    plainFrom = to;
    at = to;
  };
  while (at < text.length) {
    const found = depth < DEEPEST ? special(text, at, depth, twins) : null;
    if (found) put(found.to, { at, part: found.part });
    else at += 1;
  }
  if (plainFrom < text.length) parts.push(text.slice(plainFrom));
  return parts;
}

function special(text, at, depth, twins) {
  switch (text[at]) {
    case '\\': return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '') ? { to: at + 2, part: text[at + 1] } : null;
    case '`': return codeSpan(text, at, twins);
    case '*': case '_': case '~': return emphasis(text, at, depth, twins);
    case '!': return text[at + 1] === '[' ? link(text, at + 1, depth, twins) : null;
    case '[': return link(text, at, depth, twins);
    case '<': return angle(text, at);
    case 'h': return bare(text, at);
    case '\n': return { to: at + 1, part: { kind: text.slice(Math.max(0, at - 2), at) === '  ' ? 'break' : 'space' } };
    default: return null;
  }
}

function twin(text, mark, from, twins) {
  const known = twins.get(mark);
  if (known && from >= known.from && (known.at < 0 || from <= known.at)) return known.at;
  const at = text.indexOf(mark, from);
  twins.set(mark, { from, at });
  return at;
}

function codeSpan(text, at, twins) {
  const ticks = /^`+/.exec(text.slice(at, at + 100))[0];
  const end = twin(text, ticks, at + ticks.length, twins);
  if (end < 0) return null;
  const inside = text.slice(at + ticks.length, end).replace(/\n/g, ' ');
  return { to: end + ticks.length, part: { kind: 'code', text: inside } };
}

const isWord = (character) => /[\p{L}\p{N}]/u.test(character ?? '');

function emphasis(text, at, depth, twins) {
  const mark = MARKS.find((candidate) => text.startsWith(candidate, at));
  if (!mark || /\s|^$/.test(text[at + mark.length] ?? '')) return null;
  if (mark[0] === '_' && isWord(text[at - 1])) return null;
  let end = twin(text, mark, at + mark.length + 1, twins);
  // A single mark does not match half of a double one.
  while (end > 0 && mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark)) {
    end = twin(text, mark, end + (text[end + 1] === mark ? 2 : 1), twins);
  }
  if (end < 0 || /\s/.test(text[end - 1]) || (mark[0] === '_' && isWord(text[end + mark.length]))) return null;
  const parts = inline(text.slice(at + mark.length, end), depth + 1);
  const part = { kind: KIND[mark], parts };
  return { to: end + mark.length, part: mark === '***' ? { kind: 'em', parts: [part] } : part };
}

const TARGET = /^\]\( ?<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?: (?:"[^"]*"|'[^']*'))? ?\)/;

function link(text, at, depth, twins) {
  const end = twin(text, '](', at + 1, twins);
  if (end < 0 || end - at > 1_000) return null;
  const target = TARGET.exec(text.slice(end, end + LONGEST));
  const address = target && webAddress(target[1]);
  if (!address) return null;
  const label = text.slice(at + 1, end);
  const inside = inline(label.replace(/!?\[/g, ''), depth + 1).filter((part) => part.kind !== 'link');
  const parts = inside.length === 0 ? [address.href] : inside;
  return { to: end + target[0].length, part: { kind: 'link', ...address, parts } };
}

function angle(text, at) {
  const match = /^<(https?:\/\/[^\s<>]+)>/i.exec(text.slice(at, at + LONGEST));
  const address = match && webAddress(match[1]);
  return address ? { to: at + match[0].length, part: { kind: 'link', ...address, parts: [match[1]] } } : null;
}

function bare(text, at) {
  if (isWord(text[at - 1]) || !/^https?:\/\//i.test(text.slice(at, at + 8))) return null;
  const match = /^https?:\/\/[^\s<>"'`\]|\\]+/i.exec(text.slice(at, at + LONGEST));
  if (!match) return null;
  let length = match[0].length;
  while ('.,;:!?)*_'.includes(match[0][length - 1])) length -= 1;
  const written = match[0].slice(0, length);
  const address = webAddress(written);
  return address ? { to: at + written.length, part: { kind: 'link', ...address, parts: [written] } } : null;
}

/* Summaries. */

/** The beginning of a result for one line: the text of its Markdown. */
export const gist = (value, most = 300) => brief(typeof value === 'string' ? parse(value.slice(0, 2 * most)).map(words).join(' ') : value, most);

function words({ kind, text, blocks = [], entries = [], head = [], rows = [] }) {
  if (kind === 'code') return text;
  const lines = text === undefined ? [head, ...rows].flat() : [text];
  return [...lines.map((one) => inline(one).map(said).join('')), ...[...blocks, ...entries.flat()].map(words)].join(' ');
}

const said = (part) => (typeof part === 'string' ? part : part.text ?? part.parts?.map(said).join('') ?? ' ');

/* Nodes. */

export const markdown = (text) => html`<div class="md">${parse(text ?? '').map(blockNode)}</div>`;

/** With what it copies: the text as it was written. */
export const Markdown = ({ text }) => html`${markdown(text)}<${CopyRow} text=${text} />`;

const CopyRow = ({ text, children }) => html`<div class="row dim t0">${children}<${Copy} text=${text} label="Copy" cls="quiet right" /></div>`;

function blockNode(found) {
  switch (found.kind) {
    case 'heading': return headingNode(found);
    case 'rule': return html`<hr />`;
    case 'quote': return html`<blockquote>${found.blocks.map(blockNode)}</blockquote>`;
    case 'code': return html`<div><${CopyRow} text=${found.text}>${show(found.language)}</${CopyRow}>
      <pre class="json" tabindex="0" role="group" aria-label="Code">${show(found.text)}</pre></div>`;
    case 'list': {
      const entries = found.entries.map((blocks) => html`<li>${blocks.map(blockNode)}</li>`);
      return found.ordered ? html`<ol start=${found.start}>${entries}</ol>` : html`<ul>${entries}</ul>`;
    }
    case 'table': return tableNode(found);
    default: return html`<p>${boxNode(found)}${line(found.text)}</p>`;
  }
}

const boxNode = ({ done }) => done !== undefined && html`<input type="checkbox" disabled checked=${done} aria-label=${done ? 'Done' : 'To do'} />`;

// Headings of an answer are below the page's.
const headingNode = ({ level, text }) => html`
  <p class="md-h md-h${level}" role="heading" aria-level=${Math.min(6, level + 2)}>${line(text)}</p>`;

function tableNode({ align, head, rows }) {
  const side = (i) => (align[i] === 'end' ? 'n' : '');
  return html`<div class="scrollx" tabindex="0" role="group" aria-label="Table"><table class="data">
    <thead><tr>${head.map((cell, i) => html`<th class=${side(i)}>${line(cell)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell, i) => html`<td class=${side(i)}>${line(cell)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const line = (text) => html`<bdi class="arg">${inline(text).map(partNode)}</bdi>`;

function partNode(part) {
  if (typeof part === 'string') return shown(part);
  switch (part.kind) {
    case 'strong': return html`<strong>${part.parts.map(partNode)}</strong>`;
    case 'em': return html`<em>${part.parts.map(partNode)}</em>`;
    case 'del': return html`<s>${part.parts.map(partNode)}</s>`;
    case 'code': return html`<code>${shown(part.text)}</code>`;
    case 'break': return html`<br />`;
    case 'space': return ' ';
    default: return linkNode(part, part.parts.map(partNode));
  }
}

// The host is ours, and outside the link.
const linkNode = ({ href, host }, words) => html`
  <a href=${href} target="_blank" rel="noopener noreferrer" title=${plain(href)}>${words}</a><span class="host"> (${host})</span>`;

/* Further parts of an answer. */

export function Extras({ ui, composer, isLast: withSuggestions }) {
  if (ui === null || typeof ui !== 'object') return null;
  const sources = some(ui.sources).map(sourceOf).filter(Boolean);
  const suggestions = withSuggestions ? some(ui.suggestions).filter((one) => typeof one === 'string') : [];
  return html`
    ${sources.length > 0 && html`<div class="extras"><h3>Sources</h3><ol>${sources.map(({ title, address }) => html`<li>
      ${address ? linkNode(address, show(title)) : show(title)}</li>`)}</ol></div>`}
    ${suggestions.length > 0 && html`<div class="extras"><h3>To go on</h3><ul>${suggestions.map((text) => html`<li class="row">
      <span class="grow">${show(text)}</span>
      <${Button} cls="small" label="Use" onClick=${() => composer.take(text)} /></li>`)}</ul></div>`}`;
}

const some = (value) => (Array.isArray(value) ? value.slice(0, 20) : []);

function sourceOf(source) {
  if (typeof source === 'string') return { title: source, address: webAddress(source) };
  if (source === null || typeof source !== 'object') return null;
  const url = typeof source.url === 'string' ? source.url : '';
  const title = String(source.title || source.sourceName || url).trim();
  return title === '' ? null : { title, address: webAddress(url) };
}

/** `{href, host}` of an allowed address. */
export function webAddress(text) {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  return { href: url.href, host: url.host };
}
