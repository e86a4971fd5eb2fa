//! The mailbox of a thread's task when it is full.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use crate::support::app::App;
use crate::support::http::{Said, in_no_time};
use crate::support::store::{Mood, Moody};

/// While the thread's task waits for the store, one command is done and one waits in the mailbox. Others wait for a while.
pub(super) async fn waits_for_a_while() {
    let (store, app) = one_in_the_mailbox().await;
    store.set("commit", Mood::Hangs);
    let mut edits: FuturesUnordered<_> = (0..5).map(|_| edit(&app)).collect();
    for _ in 0..3 {
        edits.next().await.expect("an answer").problem("too_many_requests");
    }
    store.set("commit", Mood::Well);
    while let Some(said) = edits.next().await {
        said.expect(200);
    }
}

/// The time in which they are done depends on the machine, and how long each waits must not.
#[tokio::test]
async fn commands_beyond_the_mailbox_are_done_as_there_is_room() {
    let (store, app) = one_in_the_mailbox().await;
    store.set("commit", Mood::Hangs);
    let edits = join_all((0..100).map(|_| edit(&app)));
    let released = async {
        store.holds("commit").await;
        store.set("commit", Mood::Well);
    };
    let (all, ()) = in_no_time(join(edits, released)).await;
    for said in all {
        said.expect(200);
    }
}

async fn one_in_the_mailbox() -> (Arc<Moody>, App) {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |config| config.limits.mailbox = 1).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    (store, app)
}

async fn edit(app: &App) -> Said {
    app.ask("PUT", "/threads/t1/agent-state").json(&json!({ "data": 1 })).send().await
}
