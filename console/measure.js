// Widths: of a pane as it is, and of words before they are drawn.

import { useLayoutEffect, useState } from './vendor/preact-htm.js';

let pen = null;

/** Breaks a text into at most `most` lines of at most `width` pixels; what does not fit ends in “…”. */
export function wrap(text, width, most, font) {
  pen ??= document.createElement('canvas').getContext('2d');
  pen.font = font;
  return wrapWith((part) => pen.measureText(part).width, text, width, most);
}

/** The same with a measure of its own, for tests. */
export function wrapWith(measure, text, width, most) {
  const fits = (part) => measure(part) <= width;
  const words = text.split(/\s+/).flatMap((word) => pieces(word, fits));
  const lines = [''];
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) === '' || fits(longer)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  if (lines.length <= most) return lines;
  let last = lines.slice(most - 1).join(' ');
  while (last && !fits(`${last}…`)) last = last.slice(0, -1);
  return [...lines.slice(0, most - 1), `${last.trimEnd()}…`];
}

/** A word that is wider than the line is cut. */
function pieces(word, fits) {
  if (fits(word)) return [word];
  const out = [''];
  for (const letter of word) {
    if (out.at(-1) === '' || fits(out.at(-1) + letter)) out[out.length - 1] += letter;
    else out.push(letter);
  }
  return out;
}

/** Width and height of an element, measured when it changes. */
export function useSize(ref) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize((had) => (had.width === width && had.height === height ? had : { width, height }));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref.current]);
  return size;
}
