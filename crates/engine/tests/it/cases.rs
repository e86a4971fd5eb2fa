//! How many cases a test runs.

use proptest::test_runner::Config;

/// Whether this is a run of `scripts/test --all`.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the server")]
pub fn is_all() -> bool {
    std::env::var_os("PES_TEST_ALL").is_some()
}

/// This many by default, and sixteen times as many with `scripts/test --all`. No file is written beside the sources: a
/// failing case is printed completely.
pub fn cases(usual: u32) -> Config {
    Config { cases: usual * if is_all() { 16 } else { 1 }, failure_persistence: None, ..Config::default() }
}
