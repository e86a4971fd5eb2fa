use std::future::pending;
use std::task::Context;
use std::time::Duration;

use futures_util::task::noop_waker_ref;
use tokio::sync::mpsc;

use super::*;

#[test]
fn nothing_is_asked_again_before_it_woke() {
    let (said, mut heard) = mpsc::channel(2);
    let (poll_gate, mut context) = (PollGate::new(), Context::from_waker(noop_waker_ref()));
    let mut asked = 0;
    let mut poll = || {
        let polled = poll_gate.poll(&mut context, |context| {
            asked += 1;
            heard.poll_recv(context)
        });
        (polled, asked)
    };
    assert_eq!(poll(), (Poll::Pending, 1), "it has to be asked once");
    assert_eq!(poll(), (Poll::Pending, 1));
    said.try_send('a').unwrap();
    said.try_send('b').unwrap();
    assert_eq!(poll(), (Poll::Ready(Some('a')), 2));
    assert_eq!(poll(), (Poll::Ready(Some('b')), 3), "more may be ready behind what was");
    assert_eq!(poll(), (Poll::Pending, 4));
    assert_eq!(poll(), (Poll::Pending, 4));
}

#[tokio::test]
async fn the_task_is_woken() {
    let (said, mut heard) = mpsc::channel(1);
    let poll_gate = PollGate::new();
    let waiting = tokio::spawn(async move {
        std::future::poll_fn(|context| poll_gate.poll(context, |context| heard.poll_recv(context))).await
    });
    tokio::task::yield_now().await;
    said.send('a').await.unwrap();
    assert_eq!(waiting.await.unwrap(), Some('a'));
}

#[tokio::test]
async fn work_is_dropped_when_its_token_is_cancelled() {
    let token = CancellationToken::new();
    assert_eq!(run_until_cancelled(&token, async { 'a' }).await, Some('a'));
    let of_work = token.clone();
    let working = tokio::spawn(async move { run_until_cancelled(&of_work, pending::<()>()).await });
    tokio::task::yield_now().await;
    token.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(30), working).await;
    assert_eq!(ended.expect("it ends").unwrap(), None);
    assert_eq!(run_until_cancelled(&token, async { 'a' }).await, None, "nothing begins after that");
}
