//! How many cases a property test runs.

use pes::config::env::Variables;
use proptest::test_runner::Config;

/// This many by default, and sixteen times as many with `scripts/test --all`. No file is written beside the sources: a
/// failing case is printed completely.
pub fn cases(usual: u32) -> Config {
    let times = if Variables::of_process().get("PES_TEST_ALL").is_some() { 16 } else { 1 };
    Config { cases: usual * times, failure_persistence: None, ..Config::default() }
}
