//! Random choices that follow from a seed.

use std::hash::{DefaultHasher, Hash, Hasher};

pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `of`.
    pub fn pick(&mut self, of: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (hash(self.0) % of as u64) as usize
    }

    pub fn one_in(&mut self, of: usize) -> bool {
        self.pick(of) == 0
    }

    /// One of these; `None`: there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.pick(all.len())) }
    }
}

/// The same number for the same value, in every process.
pub fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
