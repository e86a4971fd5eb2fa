//! A schedule has the rights of a key for as long as requests have them.

use serde_json::json;

use crate::support::clocked::{Clocked, HOUR, TODAY};

/// Keys end by the system's clock, even while the server's own clock is behind or ahead of it.
#[rstest::rstest]
#[case::system_is_ahead(HOUR, TODAY + HOUR, 0)]
#[case::system_is_behind(-HOUR, TODAY + 500, 1)]
#[tokio::test]
async fn the_key_of_a_schedule_ends_by_the_systems_clock(#[case] ahead: i64, #[case] end: i64, #[case] runs: usize) {
    let clocked = Clocked::start().await;
    clocked.clock.put_forward(ahead);
    let ann = clocked.keyed("ann", Some(end)).await;
    clocked.schedule_by(&ann, json!({ "everyMs": 1_000 })).await;
    clocked.passes(1_000).await;
    assert_eq!(clocked.runs().await.len(), runs);
    let paused = clocked.shown().await.paused_because;
    assert_eq!(paused.is_some_and(|why| why.contains("has expired")), runs == 0);
}
