//! Random choices that depend only on the seed, and texts that databases like to confuse.

pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(7919).wrapping_add(1))
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // The constants are Knuth's for MMIX; the high bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub fn number(&mut self, end: i64) -> i64 {
        self.below(end as u64) as i64
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// What people, models and clients write.
    pub fn text(&mut self) -> String {
        (*self.of(TEXTS)).to_owned()
    }

    /// The id of a thread.
    pub fn thread_id(&mut self) -> &'static str {
        let &id = self.of(THREADS);
        id
    }
}

/// Letters whose case or form is special, the two characters with which PostgreSQL's texts are escaped, and wildcards.
pub(super) const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "A",
    "b",
    "a b",
    "AAA",
    "K",
    "\u{212a}",
    "ä",
    "Ä",
    "ß",
    "İ",
    "ı",
    "ſ",
    "Σ",
    "σς",
    "é",
    "e\u{301}",
    "\0",
    "\u{1}",
    "\u{1}0",
    "\u{1}1",
    "a\0b",
    "\u{1f}",
    "x'y",
    "%",
    "_",
    "~",
    "z~1",
    "😀",
    "\u{fffd}",
    "\u{10ffff}",
];

const THREADS: &[&str] = &["a", "A", "b", "B", "a-1", "a_1", "a.1", "AAA", "aaa", "z", "Z9", "1", "t:1"];
