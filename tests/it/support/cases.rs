//! How many cases a property tries.

use pes::config::env::Variables;
use proptest::test_runner::Config;

/// So many as a rule, and sixteen times as many with `scripts/test --all`. Nothing is written beside the sources: a case
/// that fails is told whole.
pub fn cases(usual: u32) -> Config {
    let times = if Variables::of_process().get("PES_TEST_ALL").is_some() { 16 } else { 1 };
    Config { cases: usual * times, failure_persistence: None, ..Config::default() }
}
