//! Arbitrary streams of an endpoint: events arrive in order, wherever the bytes are split. There is no panic and no
//! endless read, and no event exceeds the limit.

use futures_util::TryStreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::mcp::test_messages::{self, PATIENCE, is_numbered, is_whole, joined, message, piece};

const MOST: usize = 1_000;

/// The data of all events, and whether the stream broke.
fn received(bytes: &[u8], size: usize) -> (Vec<String>, bool) {
    let pieces: Vec<_> = bytes.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut events = events_in(stream::iter(pieces), MOST);
        let reading = async {
            let mut all = Vec::new();
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => all.extend(event.data),
                    Ok(None) => return (all, false),
                    Err(_) => return (all, true),
                }
            }
        };
        timeout(PATIENCE, reading).await.expect("it comes to an end")
    })
}

fn numbered(events: &[String]) -> Vec<Value> {
    let read = events.iter().filter_map(|data| serde_json::from_str(data).ok());
    read.filter(is_numbered).collect()
}

proptest! {
    #![proptest_config(test_messages::config())]

    #[test]
    fn events_arrive_in_their_order_whatever_stands_between_them(
        pieces in vec(piece(), 0..12),
        begins in vec(prop::sample::select(&["data: ", "data:", "id: 1\ndata: ", ": c\ndata: ", "event: x\r\ndata: "][..]), 12),
        ends in vec(prop::sample::select(&["\n\n", "\r\n\r\n", "\n\n\n"][..]), 12),
        size in 1_usize..200,
    ) {
        let pieces: Vec<Vec<u8>> = pieces.iter().zip(begins).map(|(piece, begin)| [begin.as_bytes(), piece].concat()).collect();
        let (events, is_broken) = received(&joined(&pieces, ends), size);
        prop_assert!(events.iter().all(|data| data.len() <= MOST));
        let arrived = numbered(&events);
        let whole: Vec<Value> = pieces.iter().filter_map(|piece| {
            let (_, data) = str::from_utf8(piece).ok()?.split_once("data:")?;
            is_whole(data.trim_start()).then(|| serde_json::from_str(data).unwrap())
        }).collect();
        // Data that is no text, or too large, ends the stream; earlier events have arrived.
        prop_assert!(whole.starts_with(&arrived), "{:?} of {:?}", arrived, whole);
        prop_assert!(is_broken || arrived.len() == whole.len(), "{:?} of {:?}", arrived, whole);
    }
}

#[test]
fn an_event_that_is_too_large_ends_the_stream() {
    let body = |length: usize| format!("data: {}\n\ndata: {}\n\n", message(1), "x".repeat(length));
    let (events, is_broken) = received(body(MOST - 10).as_bytes(), 7);
    assert_eq!((events.len(), is_broken), (2, false));
    let (events, is_broken) = received(body(MOST).as_bytes(), 7);
    assert_eq!((numbered(&events).len(), events.len(), is_broken), (1, 1, true));
}
