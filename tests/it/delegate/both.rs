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

/// Every place where this side can be held.
fn places(who: Who) -> &'static [&'static str] {
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

/// Tells the story up to the failpoint, kills, starts again, tells it to its end. `false`: the place was not reached before
/// the end of the story, or, if it `must`, not at all.
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
        // What is told may come later than what is asked.
        server.must_reach().await;
        is_reached = true;
    }
    // Whoever is held after the end of the story could not be looked at.
    victim.kill(server).await;
    let server = victim.start(None).await;
    stage.tell().await;
    stage.check().await;
    server.kill().await;
    other.kill().await;
    is_reached
}

/// Where nobody promised that a message is taken once, the agent is looked at; where that tells nothing, a person is asked.
#[rstest]
#[tokio::test]
async fn a_message_that_reached_an_agent_in_its_last_moment_counts_once(
    // It came, and is not stored; it is stored, and not answered, so that the caller has no id of the task.
    #[values("commit.before", "commit.after", "process.acked")] failpoint: &str,
    #[values(true, false)] dedupes: bool,
) {
    survives(Stage::on_sqlite(dedupes).await, Who::Agent, failpoint, true).await;
}

#[rstest]
// It is at work.
#[case("model.before@2")]
#[case("tool.returned@1")]
// The result is stored, and not told.
#[case("final.committed@1")]
#[case("delivery.claimed@3")]
// It is told, and that is not stored.
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
// The report is stored, and the agent not asked.
#[case("callback.committed")]
// The agent is asked, and what it says not stored.
#[case("peer.returned@2")]
// The result is applied, and nothing has come of it.
#[case("model.before@3")]
#[tokio::test]
async fn a_killed_caller_hears_what_its_agent_did(#[case] failpoint: &str) {
    survives(Stage::on_sqlite(true).await, Who::Caller, failpoint, true).await;
}

#[rstest]
#[case(Who::Agent, "commit.after")]
#[case(Who::Caller, "callback.committed")]
#[tokio::test]
async fn so_it_is_on_postgresql(#[case] who: Who, #[case] failpoint: &str) {
    survives(Stage::on_postgres().await, who, failpoint, true).await;
}

/// Every passage of every place on either side.
#[tokio::test]
#[ignore = "takes long: scripts/test --all"]
async fn the_whole_table() {
    for (who, dedupes) in [(Who::Agent, true), (Who::Agent, false), (Who::Caller, true), (Who::Caller, false)] {
        for place in places(who) {
            for passage in 1.. {
                let failpoint = format!("{place}@{passage}");
                println!("{who:?} {dedupes} {failpoint}");
                let is_passed = survives(Stage::on_sqlite(dedupes).await, who, &failpoint, false).await;
                assert!(passage > 1 || is_passed, "{place} is never passed");
                if !is_passed {
                    break;
                }
            }
        }
    }
}
