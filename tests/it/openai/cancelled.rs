//! A response that is cancelled as it ends.

use futures_util::future::join;
use serde_json::json;
use tokio::task::yield_now;

use crate::support::app::App;
use crate::support::store::{Mood, Moody};

/// As one that had ended before is.
#[tokio::test]
async fn one_that_ends_before_its_cancel_is_answered_as_it_ended() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    // The query is accepted; its answer waits for the store.
    store.set("commit", Mood::HangsNext);
    let body = json!({ "model": "pes", "input": "hello", "background": true });
    let begun = app.post("/v1/responses", body).await.expect(200);
    store.holds("commit").await;
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    store.calls("find_row");
    assert_eq!(app.get(&path).await.expect(200)["status"], "in_progress");
    let reads = store.calls("find_row");
    let ends = async {
        // The response was read, as above, and the cancel comes next.
        let mut read = 0;
        while read < reads {
            read += store.calls("find_row");
            yield_now().await;
        }
        store.set("commit", Mood::Well);
    };
    let (cancelled, ()) = join(app.ask("POST", &format!("{path}/cancel")).send(), ends).await;
    assert_eq!(cancelled.expect(200)["status"], "completed");
}
