use std::time::Duration;

use super::{Events, Frame, FrameReader, Next};
use crate::cli::server::tests::answers;

fn frame(event: &str, data: &str) -> Frame {
    Frame { event: event.to_owned(), data: data.to_owned() }
}

#[test]
fn frames_come_out_of_bytes_that_were_split_anywhere() {
    let text = "retry: 1000\n: nothing\n\nevent: observation\nid: 4\ndata: {\"seq\":4}\n\nevent: run\ndata: {}\n\n";
    for at in 0..text.len() {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        for bytes in [&text.as_bytes()[..at], &text.as_bytes()[at..]] {
            reader.extend(bytes);
            frames.extend(std::iter::from_fn(|| reader.next()));
        }
        assert_eq!(frames, [frame("observation", "{\"seq\":4}"), frame("run", "{}")], "split at {at}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_answer_now_is_asked_again_when_it_wants_to_be() {
    for status in [429, 502, 503, 504] {
        let busy = format!("HTTP/1.1 {status} No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
        let server = answers(&[&busy]);
        let mut events = Events::new(&server, "t", 0, None, false);
        match events.next().await {
            Ok(Next::Lost { why, again_in }) => {
                assert!(why.contains(&format!("status {status}")), "{why}");
                assert_eq!(again_in, Duration::from_secs(7), "{status}");
            }
            Ok(Next::Frame(frame)) => panic!("{status}: {frame:?}"),
            Err(error) => panic!("{status}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_stream_goes_on_behind_what_came_before_the_server_was_away() {
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: run\ndata: {}\n\n";
    let server = answers(&["HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", stream]);
    let mut events = Events::new(&server, "t", 4, None, false);
    assert!(matches!(events.next().await, Ok(Next::Lost { again_in, .. }) if again_in == Duration::from_secs(1)));
    assert!(matches!(events.next().await, Ok(Next::Frame(next)) if next == frame("run", "{}")));
}

#[tokio::test]
async fn a_gap_that_leads_nowhere_is_followed_by_a_pause() {
    let gap = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: gap\ndata: {\"fromSeq\":9}\n\n";
    let server = answers(&[gap, gap]);
    let mut events = Events::new(&server, "t", 4, None, false);
    assert!(matches!(events.next().await, Ok(Next::Frame(next)) if next == frame("gap", r#"{"fromSeq":9}"#)));
    match events.next().await {
        Ok(Next::Lost { why, again_in }) => {
            assert_eq!((why.as_str(), again_in), ("it cannot read the log", Duration::from_secs(1)));
        }
        Ok(Next::Frame(frame)) => panic!("{frame:?}"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_log_that_went_back_is_read_again_at_once() {
    let gap = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: gap\ndata: {\"fromSeq\":1}\n\n";
    let rest = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: run\ndata: {}\n\n";
    let server = answers(&[gap, rest]);
    let mut events = Events::new(&server, "t", 71, None, false);
    assert!(matches!(events.next().await, Ok(Next::Frame(next)) if next == frame("gap", r#"{"fromSeq":1}"#)));
    assert!(matches!(events.next().await, Ok(Next::Frame(next)) if next == frame("run", "{}")));
}

#[tokio::test]
async fn a_server_that_is_away_before_the_first_frame_is_asked_again() {
    let server = answers(&[]);
    let next = Events::new(&server, "t", 0, None, false).next().await;
    assert!(matches!(next, Ok(Next::Lost { again_in, .. }) if again_in == Duration::from_secs(1)));
}

#[tokio::test]
async fn a_refusal_is_final() {
    let server = answers(&["HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"]);
    assert!(Events::new(&server, "t", 4, None, false).next().await.is_err());
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_in_plain_words() {
    let server = answers(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]);
    let mut events = Events::new(&server, "t", 0, None, false);
    match events.next().await {
        Ok(Next::Lost { why, .. }) => assert_eq!(why, "the connection broke"),
        Ok(Next::Frame(frame)) => panic!("{frame:?}"),
        Err(error) => panic!("{error}"),
    }
}
