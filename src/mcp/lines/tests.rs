//! Arbitrary output of a program: its messages arrive in order, and other lines are ignored. There is no panic and no
//! endless read.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::mcp::test_messages::{self, PATIENCE, is_numbered, is_whole, joined, message, piece};

const MOST: usize = 1_000;

/// The messages in the bytes, if they arrive in chunks of this size.
fn received(bytes: Vec<u8>, size: usize) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (mut theirs, ours) = tokio::io::duplex(64);
        tokio::spawn(async move {
            for piece in bytes.chunks(size) {
                // Nothing is read after the end of the connection.
                if theirs.write_all(piece).await.is_err() {
                    return;
                }
            }
        });
        let pipes = Pipes::new(tokio::io::sink(), ours);
        let mut lines = StdioTransport::new(pipes, MOST, TaskTools::default(), Returned::default());
        let reading = async {
            let mut all = Vec::new();
            while let Some(message) = lines.receive().await {
                all.push(serde_json::to_value(&message).unwrap());
            }
            all
        };
        timeout(PATIENCE, reading).await.expect("it comes to an end")
    })
}

/// The messages on lines of their own, up to the line that is too long.
fn sent(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.len() <= MOST);
    let texts = lines.filter_map(|line| str::from_utf8(line.strip_suffix(b"\n")?).ok());
    texts.map(str::trim).filter(|line| is_whole(line)).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(test_messages::config())]

    #[test]
    fn messages_arrive_in_their_order_whatever_stands_between_them(
        pieces in vec(piece(), 0..12),
        ends in vec(prop::sample::select(&["\n", "\n", "\n", "\r\n", ""][..]), 12),
        size in 1_usize..200,
    ) {
        let bytes = joined(&pieces, ends);
        let whole: Vec<Value> = received(bytes.clone(), size).into_iter().filter(is_numbered).collect();
        let sent: Vec<Value> = sent(&bytes).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(whole, sent);
    }
}

#[test]
fn a_line_that_is_too_long_ends_the_connection() {
    let bytes = |length: usize| format!("{}\n{}\n{}\n", message(1), "x".repeat(length), message(2));
    assert_eq!(received(bytes(MOST - 1).into_bytes(), 7).len(), 2);
    let before = received(bytes(MOST).into_bytes(), 7);
    assert_eq!(before, [serde_json::from_str::<Value>(&message(1)).unwrap()]);
    assert_eq!(received("x".repeat(MOST + 1).into_bytes(), 7), Vec::<Value>::new());
    assert_eq!(received(json!({}).to_string().into_bytes(), 7), Vec::<Value>::new());
}
