use std::future::poll_fn;

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;

use super::ReadAhead;

#[tokio::test]
async fn what_is_waited_for_may_wait_for_the_stream_itself() {
    let (reached, is_reached) = oneshot::channel();
    let mut reached = Some(reached);
    let from = stream::iter(1..=3).map(move |n| {
        reached.take().map(|reached| reached.send(()));
        n
    });
    let mut read_ahead = ReadAhead::new(from);
    read_ahead.poll_during(is_reached).await.expect("the stream is read while it is waited for");
    let mut got = Vec::new();
    while let Some(n) = poll_fn(|context| read_ahead.poll(context)).await {
        got.push(n);
    }
    assert_eq!(got, [1, 2, 3], "nothing is lost of what came meanwhile");
}
