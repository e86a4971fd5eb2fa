//! The previous release and this one on the same data: at the same time, and one after the other, in both directions.

use std::path::PathBuf;

use pes::config::env::Variables;
use rstest::rstest;
use serde_json::{Value, json};

use super::story;
use crate::support::demo;
use crate::support::http::soon;
use crate::support::process::{Address, Place, Server, program};

/// The program that `scripts/previous-release` has built.
fn previous() -> PathBuf {
    let path = Variables::of_process().get("PES_PREVIOUS").map(PathBuf::from);
    path.expect("PES_PREVIOUS names the program that scripts/previous-release prints")
}

/// The previous release cannot read the compressed log of a new database.
const PLAIN_LOG: (&str, &str) = ("PES_STORE_COMPRESS_LOG", "false");

#[derive(Clone, Copy)]
enum Release {
    Previous,
    This,
}

impl Release {
    async fn start(self, place: &Place, failpoint: Option<&str>) -> Server {
        match self {
            Release::Previous => Server::of(&previous(), place, failpoint, &[]).await,
            Release::This => Server::of(&program(), place, failpoint, &[PLAIN_LOG]).await,
        }
    }
}

/// One release is killed in the middle of the scenario, and the other continues it.
async fn takes_over(place: Place, first: Release, second: Release, failpoint: &str) {
    let mut server = first.start(&place, Some(failpoint)).await;
    tokio::select! {
        () = story::tell(server.address, &place) => panic!("{failpoint} must be passed"),
        () = server.reached() => {}
    }
    server.kill().await;
    let server = second.start(&place, None).await;
    story::check_accepted(server.address, &place).await;
    story::tell(server.address, &place).await;
    story::check(server.address, &place).await;
    server.kill().await;
}

#[rstest]
#[tokio::test]
#[ignore = "needs the release before this one: scripts/test --all"]
async fn each_goes_on_where_the_previous_or_the_next_was_killed(
    #[values((Release::Previous, Release::This), (Release::This, Release::Previous))] way: (Release, Release),
    #[values("commit.after@12", "model.replied@7", "tool.sent@2", "tool.returned@4", "resume.committed@1")]
    failpoint: &str,
) {
    takes_over(Place::sqlite(story::SCRIPT), way.0, way.1, failpoint).await;
    takes_over(Place::postgres(story::SCRIPT).await, way.0, way.1, failpoint).await;
}

/// Runs on threads of their own, through each of the servers in turn.
async fn load(addresses: [Address; 2], name: &str, begun: &mut Vec<(String, String)>) {
    for n in 0..24 {
        let thread = format!("{name}-{n}");
        let run = story::ask(addresses[n % addresses.len()], &thread, "diamond").await;
        begun.push((thread, run));
    }
}

/// The same, until this server, which is one of them, is held; that may be before all were sent.
async fn load_until_held(addresses: [Address; 2], name: &str, held: &mut Server) -> Vec<(String, String)> {
    let mut begun = Vec::new();
    let reached = held.reached();
    tokio::pin!(reached);
    tokio::select! {
        () = load(addresses, name, &mut begun) => soon(reached).await,
        () = &mut reached => {}
    }
    begun
}

async fn all_completed(address: Address, place: &Place, begun: &[(String, String)]) {
    for (thread, run) in begun {
        assert_eq!(story::ended(address, place, run).await["status"], "completed", "{thread}");
        story::check_diamond(address, place, thread).await;
    }
}

#[tokio::test]
#[ignore = "needs the release before this one: scripts/test --all"]
async fn replicas_of_the_previous_and_this_one_share_a_database_while_they_are_killed() {
    let place = Place::postgres(story::SCRIPT).await;
    // Up: this release migrates the schema while the previous one works, and continues what that leaves.
    let old = Release::Previous.start(&place, None).await;
    let mut killed = Release::Previous.start(&place, Some("tool.sent@30")).await;
    let mut begun = load_until_held([old.address, killed.address], "up", &mut killed).await;
    let new = Release::This.start(&place, None).await;
    load([old.address, new.address], "both", &mut begun).await;
    killed.kill().await;
    all_completed(new.address, &place, &begun).await;

    // Down: the previous release continues what this one leaves.
    let mut killed = Release::This.start(&place, Some("tool.sent@30")).await;
    let mut begun = load_until_held([new.address, killed.address], "down", &mut killed).await;
    killed.kill().await;
    load([new.address, old.address], "last", &mut begun).await;
    new.stop();
    all_completed(old.address, &place, &begun).await;
    old.kill().await;
}

/// States and rows that the previous release does not know. Documents of new kinds are left out: it cannot read them,
/// unlike releases from this one on (`store::newer`).
async fn make_what_is_new(address: Address) {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let query = json!({ "query": "where", "options": { "answerSchema": schema } });
    let said = address.ask("POST", "/threads/form/process").header("prefer", "wait=30").json(&query).send().await;
    assert_eq!(said.expect(200)["metadata"]["status"], "success");
    let kept = json!({ "logDays": 30, "hold": { "reason": "case 4711" } });
    address.ask("PUT", "/threads/form/retention").json(&kept).send().await.expect(200);
}

async fn all_read(address: Address) -> Vec<String> {
    let list = address.ask("GET", "/threads").send().await.expect(200);
    let threads: Vec<String> =
        list["items"].as_array().expect("a list").iter().map(|seen| text(&seen["threadId"])).collect();
    for thread in &threads {
        for path in ["", "/state", "/runs", "/events?limit=200"] {
            let ask = address.ask("GET", &format!("/threads/{thread}{path}")).header("accept", "application/json");
            ask.send().await.expect(200);
        }
    }
    threads
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

async fn goes_back_and_forth(place: Place) {
    let new = Release::This.start(&place, None).await;
    make_what_is_new(new.address).await;
    new.kill().await;
    let old = Release::Previous.start(&place, None).await;
    for thread in all_read(old.address).await {
        let query = json!({ "query": "hello" });
        let ask = old.address.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
        assert_eq!(ask.json(&query).send().await.expect(200)["metadata"]["status"], "success", "{thread}");
    }
    old.kill().await;
    let new = Release::This.start(&place, None).await;
    assert_eq!(all_read(new.address).await, ["form"]);
    let kept = new.address.ask("GET", "/threads/form/retention").send().await.expect(200);
    assert_eq!(kept["hold"]["reason"], "case 4711");
    new.kill().await;
    let verified = place.run(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[tokio::test]
#[ignore = "needs the release before this one: scripts/test --all"]
async fn the_previous_works_with_what_this_one_has_made_and_back() {
    goes_back_and_forth(Place::sqlite(demo::SCRIPT)).await;
    goes_back_and_forth(Place::postgres(demo::SCRIPT).await).await;
}
