//! Digests of what the engine writes for each seed: a refactoring changes none of them.
//!
//! After a change of behaviour, run `PES_TEST_ALL=1 cargo test -p pes-engine digests` and copy `target/tmp/digests.txt`
//! over `tests/it/digests.txt`.

use std::fmt::Write as _;

use pes_engine::domain::ids::{ItemId, ObservationId, RunId};
use pes_engine::domain::observation::{self, ObservationType, RecordMetadata};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::cases::is_all;
use super::random;
use super::sim::Sim;

/// By default; with `scripts/test --all` every recorded seed.
const SEEDS: usize = 100;
const RECORDED: &str = include_str!("digests.txt");
/// How many are recorded: a truncated file must not pass for a complete one.
const ALL: usize = 2_000;

/// Fewer than `most` random bytes, as many as the seed says (SplitMix64).
pub fn bytes(seed: u64, most: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let length = next() % most;
    (0..length).map(|_| next() as u8).collect()
}

/// A record as the digests cover it: its `Debug` text counts.
#[derive(Debug)]
#[allow(dead_code)] // Only `Debug` reads the members.
struct Record<'a> {
    id: &'a ObservationId,
    run_id: &'a RunId,
    parent_id: &'a Option<ItemId>,
    trace_id: &'a str,
    timestamp: i64,
    kind: ObservationType,
    title: &'a str,
    content: Value,
    metadata: Option<Value>,
}

impl<'a> Record<'a> {
    fn of(record: &'a observation::Record) -> Self {
        Self {
            id: &record.id,
            run_id: &record.run_id,
            parent_id: &record.parent_id,
            trace_id: &record.trace_id,
            timestamp: record.timestamp,
            kind: record.kind(),
            title: &record.title,
            content: record.fact.content(),
            metadata: record.metadata.as_ref().map(RecordMetadata::value),
        }
    }
}

/// Covers everything committed: heads, rows, records and the thread's status, commit by commit.
fn digest(sim: &Sim) -> String {
    let mut hash = Sha256::new();
    for step in &sim.steps {
        let mut rows: Vec<String> = step.rows.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        let stands =
            (&step.head, step.status, step.wake_at, step.floor, step.progress, step.is_noop, step.is_cancelling);
        let records: Vec<Record<'_>> = step.records.iter().map(Record::of).collect();
        hash.update(format!("{stands:?}{rows:?}{records:?}"));
    }
    hash.finalize()[..8].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

#[test]
fn random_runs_write_what_they_wrote() {
    let recorded: Vec<&str> = RECORDED.lines().collect();
    assert_eq!(recorded.len(), ALL);
    let seeds = if is_all() { ALL } else { SEEDS };
    let mut written = String::new();
    for seed in 0..seeds as u64 {
        let sim = random::run(bytes(seed, 160), seed, 1 + (seed % 5) as usize);
        writeln!(written, "{seed} {} {}", sim.steps.len(), digest(&sim)).unwrap();
    }
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/digests.txt");
    std::fs::write(path, &written).unwrap();
    let first = recorded.iter().zip(written.lines()).find(|(recorded, written)| **recorded != *written);
    assert_eq!(first, None, "recorded and written; all that was written is in {path}");
}
