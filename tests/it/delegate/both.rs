//! kill -9 on either side at every boundary of a delegation between two servers of ours: nothing is lost or done twice.
//!
//! A few rows of the table always run; all of them with `scripts/test --all`.

use rstest::rstest;

use super::stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Caller,
    Agent,
}

/// Every failpoint on this side.
fn failpoints(who: Who) -> &'static [&'static str] {
    match who {
        Who::Caller => &[
            "commit.before",
            "commit.after",
            "publish.before",
            "process.acked",
            "model.before",
            "model.replied",
            "peer.before",
            "peer.send",
            "peer.sent",
            "peer.returned",
            "callback.verified",
            "callback.committed",
            "final.committed",
        ],
        Who::Agent => &[
            "commit.before",
            "commit.after",
            "publish.before",
            "process.acked",
            "model.before",
            "model.replied",
            "tool.before",
            "tool.returned",
            "final.committed",
            "delivery.claimed",
            "delivery.sent",
        ],
    }
}

/// Runs the scenario up to the failpoint, kills, starts again, runs it to its end. `false`: the failpoint was not
/// reached before the end of the scenario, or, if it `must`, not at all.
async fn survives(stage: Stage, who: Who, failpoint: &str, must: bool) -> bool {
    let (victim, other) = match who {
        Who::Caller => (&stage.caller, &stage.agent),
        Who::Agent => (&stage.agent, &stage.caller),
    };
    let other = other.start(None).await;
    let mut server = victim.start(Some(failpoint)).await;
    let mut is_reached = tokio::select! {
        () = stage.tell() => false,
        () = server.reached() => true,
    };
    if must && !is_reached {
        // A report may come later than a poll.
        server.must_reach().await;
        is_reached = true;
    }
    // A process held after the end of the scenario could not be checked.
    victim.kill(server).await;
    let server = victim.start(None).await;
    stage.tell().await;
    stage.check().await;
    server.kill().await;
    other.kill().await;
    is_reached
}

/// If the agent does not promise to accept a message once, its tasks are listed; if that is inconclusive, a person is
/// asked.
#[rstest]
#[tokio::test]
async fn a_message_that_reached_an_agent_in_its_last_moment_counts_once(
    // The message arrived, and is not stored; or it is stored and not answered, so that the caller has no task id.
    #[values("commit.before", "commit.after", "process.acked")] failpoint: &str,
    #[values(true, false)] dedupes: bool,
) {
    survives(Stage::on_sqlite(dedupes).await, Who::Agent, failpoint, true).await;
}

#[rstest]
// The task is running.
#[case("model.before@2")]
#[case("tool.returned@1")]
// The result is stored and not reported.
#[case("final.committed@1")]
#[case("delivery.claimed@3")]
// The report is sent, and that is not stored.
#[case("delivery.sent@1")]
#[case("delivery.sent@3")]
#[tokio::test]
async fn a_killed_agent_goes_on_and_reports_what_it_did(#[case] failpoint: &str) {
    survives(Stage::of_reports().await, Who::Agent, failpoint, true).await;
}

#[rstest]
// The message is sent, and its id not stored.
#[case("peer.sent")]
#[case("peer.returned")]
// The report is stored, and the agent not polled.
#[case("callback.committed")]
// The result is applied and not yet processed.
#[case("model.before@3")]
#[tokio::test]
async fn a_killed_caller_hears_what_its_agent_did(#[case] failpoint: &str) {
    survives(Stage::on_sqlite(true).await, Who::Caller, failpoint, true).await;
}

/// The agent is polled, and its answer not stored.
#[tokio::test]
async fn a_caller_that_is_killed_after_a_poll_polls_again() {
    survives(Stage::of_polls().await, Who::Caller, "peer.returned@2", true).await;
}

#[rstest]
#[case(Who::Agent, "commit.after")]
#[case(Who::Caller, "callback.committed")]
#[tokio::test]
async fn so_it_is_on_postgresql(#[case] who: Who, #[case] failpoint: &str) {
    survives(Stage::on_postgres().await, who, failpoint, true).await;
}

/// Every passage of every failpoint on either side.
#[tokio::test]
#[ignore = "takes long: scripts/test --all"]
async fn the_whole_table() {
    for (who, dedupes) in [(Who::Agent, true), (Who::Agent, false), (Who::Caller, true), (Who::Caller, false)] {
        for name in failpoints(who) {
            for passage in 1.. {
                let failpoint = format!("{name}@{passage}");
                println!("{who:?} {dedupes} {failpoint}");
                let is_passed = survives(Stage::on_sqlite(dedupes).await, who, &failpoint, false).await;
                assert!(passage > 1 || is_passed, "{name} is never passed");
                if !is_passed {
                    break;
                }
            }
        }
    }
}
