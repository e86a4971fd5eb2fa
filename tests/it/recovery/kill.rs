//! kill -9 at every persistence boundary of a run: each failpoint between two writes that must each hold alone, at its n-th
//! passage. A pipe holds the process there, so nothing depends on timing.
//!
//! A few rows of the table always run; all of them with `scripts/test --all`.

use rstest::rstest;

use super::story;
use crate::support::process::{Place, Server};

/// The failpoints that this scenario passes. Those of agents, callbacks, deletions, deliveries, schedules and new databases
/// have tests of their own.
const FAILPOINTS: [&str; 11] = [
    "commit.before",
    "commit.after",
    "publish.before",
    "process.acked",
    "model.before",
    "model.replied",
    "tool.before",
    "tool.sent",
    "tool.returned",
    "resume.committed",
    "final.committed",
];

/// Runs the scenario up to the failpoint, kills the process, starts it again and runs the scenario to its end. `false`:
/// the failpoint was never reached.
async fn survives(place: Place, failpoint: &str) -> bool {
    let mut server = Server::start(&place, Some(failpoint)).await;
    let is_reached = tokio::select! {
        () = story::tell(server.address, &place) => false,
        () = server.reached() => true,
    };
    if is_reached {
        server.kill().await;
        server = Server::start(&place, None).await;
        story::check_accepted(server.address, &place).await;
        story::tell(server.address, &place).await;
    }
    story::check(server.address, &place).await;
    server.kill().await;
    is_reached
}

#[rstest]
#[case("commit.before@1")]
#[case("commit.before@15")]
#[case("commit.after@1")]
#[case("commit.after@12")]
#[case("commit.after@20")]
#[case("publish.before@9")]
#[case("process.acked@3")]
#[case("process.acked@4")]
#[case("model.before@6")]
#[case("model.replied@7")]
#[case("tool.before@3")]
#[case("tool.sent@2")]
#[case("tool.returned@4")]
#[case("resume.committed@1")]
#[case("final.committed@1")]
#[tokio::test]
async fn a_killed_process_goes_on_as_if_nothing_had_happened(#[case] failpoint: &str) {
    assert!(survives(Place::sqlite(story::SCRIPT), failpoint).await, "{failpoint} must be passed");
}

#[rstest]
#[case("commit.before@14")]
#[case("commit.after@13")]
#[case("tool.sent@3")]
#[tokio::test]
async fn so_does_one_on_postgresql(#[case] failpoint: &str) {
    assert!(survives(Place::postgres(story::SCRIPT).await, failpoint).await, "{failpoint} must be passed");
}

/// Every passage of every failpoint, on both databases.
#[tokio::test]
#[ignore = "takes long: scripts/test --all"]
async fn the_whole_table() {
    for name in FAILPOINTS {
        for passage in 1.. {
            let failpoint = format!("{name}@{passage}");
            println!("{failpoint}");
            let on_sqlite = survives(Place::sqlite(story::SCRIPT), &failpoint).await;
            let on_postgres = survives(Place::postgres(story::SCRIPT).await, &failpoint).await;
            assert!(passage > 1 || (on_sqlite && on_postgres), "{name} is never passed");
            if !on_sqlite && !on_postgres {
                break;
            }
        }
    }
}
