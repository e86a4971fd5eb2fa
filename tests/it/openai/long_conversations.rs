//! Conversations of more messages than a thread may begin with.

use pes::config::Config;

use super::conversations::{COUNT, HELLO, ask, gated};
use super::turns;
use crate::support::app::App;

#[tokio::test]
async fn a_thread_that_began_with_the_newest_messages_goes_on() {
    let limited = |config: &mut Config| {
        gated(config);
        config.limits.history_messages = 2;
    };
    let app = App::with(limited).await;
    let begun = ["hello", "Good day.", "calls", "Three sums.", "hello"];
    let (thread, answer) = ask(&app, &turns(&begun)).await;
    assert_eq!(answer, HELLO);
    let next = [&begun[..], &[HELLO, "count"]].concat();
    let (same, question) = ask(&app, &turns(&next)).await;
    assert_eq!(same, thread);
    let approved = [&next[..], &[&question, "yes"]].concat();
    assert_eq!(ask(&app, &turns(&approved)).await, (thread.clone(), COUNT.to_owned()));
    let edited = [&begun[..], &["Hello you.", "hello"]].concat();
    assert_ne!(ask(&app, &turns(&edited)).await.0, thread);
}
