use std::sync::mpsc::{Sender, channel};
use std::thread;

use futures_util::FutureExt as _;

use super::Input;

/// An input, and the sender that types into it.
fn typed() -> (Input, Sender<&'static str>) {
    let (keys, typed) = channel();
    (Input::of(move || Ok(typed.recv().ok().map(str::to_owned))), keys)
}

/// The caller stops waiting for the line; the thread reads it nevertheless.
fn finish(input: &mut Input, keys: &Sender<&'static str>, line: &'static str) {
    assert!(input.line().now_or_never().is_none(), "nothing was typed yet");
    keys.send(line).unwrap();
    while input.lines.is_empty() {
        thread::yield_now();
    }
}

#[tokio::test]
async fn a_line_from_before_a_question_is_no_answer_to_it() {
    let (mut input, keys) = typed();
    finish(&mut input, &keys, "a");
    input.forget();
    assert!(input.line().now_or_never().is_none(), "the question is answered unseen");
    keys.send("x").unwrap();
    assert_eq!(input.line().await.unwrap().as_deref(), Some("x"));
}

#[tokio::test]
async fn a_line_that_is_read_when_a_question_comes_is_an_answer() {
    let (mut input, keys) = typed();
    assert!(input.line().now_or_never().is_none());
    input.forget();
    keys.send("a").unwrap();
    assert_eq!(input.line().await.unwrap().as_deref(), Some("a"));
}

#[tokio::test]
async fn a_line_that_nobody_waits_for_any_more_comes_to_whoever_waits_next() {
    let (mut input, keys) = typed();
    finish(&mut input, &keys, "the next query");
    assert_eq!(input.line().await.unwrap().as_deref(), Some("the next query"));
    keys.send("another").unwrap();
    assert_eq!(input.line().await.unwrap().as_deref(), Some("another"));
}

#[tokio::test]
async fn a_closed_input_stays_closed() {
    let (mut input, keys) = typed();
    drop(keys);
    assert_eq!((input.line().await.unwrap(), input.line().await.unwrap()), (None, None));
}
