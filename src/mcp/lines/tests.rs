//! Arbitrary output of a program: its messages arrive in order, and other lines are ignored. There is no panic and no
//! endless read.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::mcp::test_messages::{self, PATIENCE, is_numbered, is_whole, joined, message, piece};

const MOST: usize = 1_000;
const LIMITS: Limits = Limits { max_bytes: MOST, write_timeout: Duration::from_secs(1) };

fn transport(pipes: Pipes) -> StdioTransport {
    StdioTransport::new(pipes, LIMITS, Reader::new("far".into()), Returned::default())
}

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
        let mut lines = transport(Pipes::new(tokio::io::sink(), ours));
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

/// The second message waits for the first.
#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_read_is_given_up_and_gets_nothing_later() {
    let (mut theirs, input) = tokio::io::duplex(64);
    let (_silent, output) = tokio::io::duplex(64);
    let mut lines = transport(Pipes::new(input, output));
    let long = |id: u64| {
        let params = json!({ "name": "echo", "arguments": { "text": "x".repeat(100) } });
        serde_json::from_value(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).unwrap()
    };
    let writes = [tokio::spawn(lines.send(long(1))), tokio::spawn(lines.send(long(2)))];
    let began = tokio::time::Instant::now();
    assert!(timeout(PATIENCE, lines.receive()).await.expect("it comes to an end").is_none());
    assert_eq!(began.elapsed().as_millis() / 100, 10);
    for write in writes {
        write.await.unwrap().unwrap_err();
    }
    lines.close().await.unwrap();
    drop(lines);
    let mut read = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut read).await.unwrap();
    assert_eq!(read.len(), 64, "what stood in the pipe, and nothing more");
}
