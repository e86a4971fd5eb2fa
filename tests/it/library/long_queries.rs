//! Of long queries that come at the same moment, and of copies of long threads, a few are decided on at once.

use futures_util::future::{LocalBoxFuture, join_all};
use pes::domain::ids::ThreadId;
use pes::domain::settings::CallOptions;
use pes::domain::tool::ClientTool;
use pes::service::fork::fork;
use pes::service::runs::{self, ContinueAt, ProcessAsk};
use serde_json::json;

use crate::support::clocked::Clocked;
use crate::support::http::in_no_time;
use crate::support::store::{Mood, Moody};

/// So many queries of a million bytes have room together.
const MOST: usize = 16;

fn long_text() -> String {
    "x".repeat(1_000_000)
}

async fn process(clocked: &Clocked, thread: String, ask: ProcessAsk) {
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    runs::process(service, caller, &ThreadId::from(thread), ask, None).await.unwrap();
}

fn asking(query: String) -> ProcessAsk {
    ProcessAsk { query, ..ProcessAsk::default() }
}

#[tokio::test]
async fn long_queries_take_turns_and_short_ones_do_not_wait_for_them() {
    take_turns(0, |clocked, n| Box::pin(process(clocked, format!("long-{n}"), asking(long_text())))).await;
}

#[tokio::test]
async fn queries_with_long_tools_of_the_client_take_turns() {
    take_turns(0, |clocked, n| {
        let tool =
            ClientTool { name: "long".to_owned(), description: long_text(), input_schema: json!({ "type": "object" }) };
        let options = CallOptions { client_tools: vec![tool], ..CallOptions::default() };
        Box::pin(process(clocked, format!("long-{n}"), ProcessAsk { options, ..asking("hello".to_owned()) }))
    })
    .await;
}

#[tokio::test]
async fn queries_that_go_back_in_long_conversations_take_turns() {
    take_turns(MOST + 8, |clocked, n| {
        let ask = ProcessAsk { continue_at: Some(ContinueAt::Start), ..asking("hello".to_owned()) };
        Box::pin(process(clocked, format!("said-{n}"), ask))
    })
    .await;
}

#[tokio::test]
async fn copies_of_long_conversations_take_turns() {
    take_turns(1, |clocked, n| {
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        Box::pin(async move {
            let (of, copy) = (ThreadId::from("said-0"), ThreadId::from(format!("copy-{n}")));
            fork(service, caller, &of, None, Some(copy), None).await.unwrap();
        })
    })
    .await;
}

/// `act` is called more often than there is room for. The threads `said-0`, `said-1` and so on, as many as it needs, have a
/// long conversation.
async fn take_turns(conversations: usize, act: for<'a> fn(&'a Clocked, usize) -> LocalBoxFuture<'a, ()>) {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    for n in 0..conversations {
        clocked.ask(&format!("said-{n}"), &long_text()).await;
    }
    store.set("commit", Mood::Hangs);
    store.calls("commit");
    let long = join_all((0..MOST + 8).map(|n| act(&clocked, n)));
    let short = async {
        store.holds_many("commit", MOST).await;
        tokio::join!(process(&clocked, "short".to_owned(), asking("hello".to_owned())), async {
            store.holds_many("commit", MOST + 1).await;
            // The other long ones would come meanwhile.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(store.calls("commit"), MOST + 1);
            store.set("commit", Mood::Well);
        });
    };
    // Each takes the only thread of this test for so long that the others would not get their turn at the store in time.
    in_no_time(async { tokio::join!(long, short) }).await;
    clocked.instance.close().await;
}
