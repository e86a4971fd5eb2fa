// A table of records by id, in the order in which they came, of which old versions stay readable.
//
// A version is a list of chunks; writing copies the chunks that it touches. All versions of a log share one index: the same
// log gives the same ids the same places, and a version does not see what lies beyond its length.

const CHUNK = 64;

export class Table {
  constructor(index = new Map(), chunks = [], size = 0) {
    this.index = index;
    this.chunks = chunks;
    this.size = size;
  }

  get(id) {
    const place = this.index.get(id);
    return place === undefined || place >= this.size ? undefined : this.chunks[Math.floor(place / CHUNK)][place % CHUNK];
  }

  has(id) {
    return this.get(id) !== undefined;
  }

  *values() {
    for (let place = 0; place < this.size; place++) yield this.chunks[Math.floor(place / CHUNK)][place % CHUNK];
  }

  [Symbol.iterator]() {
    return this.values();
  }

  /** For a batch of changes; `done()` gives the next version. */
  writer() {
    return new Writer(this);
  }
}

class Writer {
  constructor(table) {
    this.table = table;
    this.chunks = table.chunks;
    this.size = table.size;
    this.ownChunks = new Set();
    this.ownRecords = new Set();
  }

  get(id) {
    const place = this.table.index.get(id);
    return place === undefined || place >= this.size ? undefined : this.chunks[Math.floor(place / CHUNK)][place % CHUNK];
  }

  add(id, record) {
    const place = this.size;
    this.table.index.set(id, place);
    this.size += 1;
    this.chunk(place)[place % CHUNK] = record;
    this.ownRecords.add(id);
    return record;
  }

  /** The record to be changed: a copy of its own for this batch. Undefined if there is none. */
  edit(id) {
    const record = this.get(id);
    if (record === undefined || this.ownRecords.has(id)) return record;
    const place = this.table.index.get(id);
    this.ownRecords.add(id);
    const copy = { ...record };
    this.chunk(place)[place % CHUNK] = copy;
    return copy;
  }

  chunk(place) {
    const number = Math.floor(place / CHUNK);
    if (this.ownChunks.has(number)) return this.chunks[number];
    if (this.ownChunks.size === 0) this.chunks = this.chunks.slice();
    this.ownChunks.add(number);
    this.chunks[number] = this.chunks[number]?.slice() ?? [];
    return this.chunks[number];
  }

  done() {
    return this.ownChunks.size === 0 ? this.table : new Table(this.table.index, this.chunks, this.size);
  }
}
