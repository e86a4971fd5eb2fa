//! Every fault between a vendor and us, one row each, on every wire: retry (after), refused, broken, incomplete, or no
//! fault.

use std::sync::Arc;

use pes::domain::model::{Delta, FailureKind};
use rstest::rstest;
use serde_json::json;
use tokio::sync::Notify;

use super::speech::Speech;
use super::{KEY, ask};
use crate::support::unused_address::unused_address;
use crate::support::wire::{Step, Wire, answer, end};

use FailureKind::{Broken, Incomplete, Refused, Retry, TooLarge};

/// The expected outcome of a row: the text received, and how it ended.
type Outcome = Result<&'static str, (FailureKind, Option<i64>, &'static str)>;

fn ends(kind: FailureKind) -> Outcome {
    Err((kind, None, ""))
}

fn after(kind: FailureKind, text: &'static str) -> Outcome {
    Err((kind, None, text))
}

/// A response with an error status: name, status line, headers, body, meaning.
const STATUSES: &[(&str, &str, &str, FailureKind, Option<i64>)] = &[
    ("400 Bad Request", "", "bad schema", Refused, None),
    ("401 Unauthorized", "", "no key", Refused, None),
    ("402 Payment Required", "", "pay", Refused, None),
    ("403 Forbidden", "", "no", Refused, None),
    ("404 Not Found", "", "no model", Refused, None),
    ("408 Request Timeout", "", "slow", Retry, None),
    ("409 Conflict", "", "lock", Retry, None),
    ("413 Content Too Large", "", "too long", Refused, None),
    ("422 Unprocessable Content", "", "field", Refused, None),
    ("425 Too Early", "", "early", Retry, None),
    ("429 Too Many Requests", "", "fast", Retry, None),
    ("429 Too Many Requests", "retry-after: 3\r\n", "fast", Retry, Some(3_000)),
    ("429 Too Many Requests", "retry-after-ms: 40\r\nretry-after: 3\r\n", "fast", Retry, Some(40)),
    (
        "429 Too Many Requests",
        "date: Sat, 21 Nov 2026 10:00:00 GMT\r\nretry-after: Sat, 21 Nov 2026 10:00:30 GMT\r\n",
        "fast",
        Retry,
        Some(30_000),
    ),
    ("429 Too Many Requests", "retry-after: soon\r\n", "fast", Retry, None),
    ("500 Internal Server Error", "", "oh", Retry, None),
    ("501 Not Implemented", "", "what", Refused, None),
    ("502 Bad Gateway", "content-type: text/html\r\n", "<html>", Retry, None),
    ("503 Service Unavailable", "retry-after: 1\r\n", "busy", Retry, Some(1_000)),
    ("504 Gateway Timeout", "", "late", Retry, None),
    ("529 Overloaded", "", "overloaded", Retry, None),
    ("301 Moved Permanently", "location: http://127.0.0.1:1/\r\n", "moved", Refused, None),
    ("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "moved", Refused, None),
];

/// The server's steps after it has read the request.
fn rows(speech: &Speech) -> Vec<(&'static str, Vec<Step>, Outcome)> {
    let gone = || Step::Stall(Arc::new(Notify::new()));
    let (text, stop) = (speech.chunk(&(speech.text)("some")), speech.chunk(&(speech.stop)()));
    let streamed = |steps: Vec<Step>| [vec![speech.head()], steps].concat();
    let has_end = speech.end.is_some() || speech.provider == "ollama";
    let idle = |times| std::iter::repeat_n(Step::Chunk(speech.idle.repeat(3).into()), times).collect::<Vec<_>>();
    let flood = std::iter::repeat_n(speech.chunk(&(speech.text)(&"x".repeat(500))), 60).collect();
    let large = speech.chunk(&(speech.text)(&"x".repeat(30_000)));
    let error = json!({"error": {"message": "m", "code": "invalid_api_key"}});
    let document = |body: &str| answer("200 OK", "content-type: application/json\r\n", body);
    let complete = |more: Vec<Step>| streamed([more, speech.whole("some"), vec![end()]].concat());
    vec![
        ("cut before an answer", vec![Step::Cut], ends(Incomplete)),
        ("no answer in time", vec![gone()], ends(Retry)),
        ("no HTTP", vec![Step::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".into())], ends(Incomplete)),
        ("half a header", vec![Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-".into()), Step::Cut], ends(Incomplete)),
        ("silence after the headers", streamed(vec![gone()]), ends(Incomplete)),
        ("silence after some text", streamed(vec![text.clone(), gone()]), after(Incomplete, "some")),
        ("cut after the headers", streamed(vec![Step::Cut]), ends(Incomplete)),
        ("cut after some text", streamed(vec![text.clone(), Step::Cut]), after(Incomplete, "some")),
        (
            "cut in a chunk",
            streamed(vec![text.clone(), Step::Raw(b"40\r\ndata: {".into()), Step::Cut]),
            after(Incomplete, "some"),
        ),
        ("a torn chunk size", streamed(vec![text.clone(), Step::Raw(b"zz\r\n".into())]), after(Incomplete, "some")),
        (
            "less than its length",
            vec![Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n".into()), Step::Cut],
            ends(Incomplete),
        ),
        (
            "cut after the stop",
            streamed(vec![text.clone(), stop.clone(), Step::Cut]),
            if speech.provider == "ollama" { Ok("some") } else { after(Incomplete, "some") },
        ),
        ("an end without a stop", streamed(vec![text.clone(), end()]), after(Incomplete, "some")),
        ("nothing", streamed(vec![end()]), ends(Incomplete)),
        ("no body", answer("200 OK", "", ""), ends(Incomplete)),
        ("a web page", answer("200 OK", "content-type: text/html\r\n", "<html>log in</html>"), ends(Refused)),
        ("a document that is no reply", document("[7]\n"), ends(Broken)),
        (
            "an error for a document",
            document(&error.to_string()),
            ends(if speech.provider == "ollama" { Retry } else { Refused }),
        ),
        (
            "an error for a stream",
            streamed(vec![speech.chunk(&error)]),
            ends(if speech.provider == "ollama" { Retry } else { Refused }),
        ),
        (
            "busy in the middle",
            streamed(vec![text.clone(), speech.chunk(&(speech.overloaded)())]),
            after(Retry, "some"),
        ),
        (
            "an error in the middle",
            streamed(vec![text.clone(), speech.chunk(&error)]),
            after(if speech.provider == "ollama" { Retry } else { Refused }, "some"),
        ),
        ("no JSON", streamed(vec![text.clone(), speech.raw_frame("<html>")]), after(Broken, "some")),
        ("JSON of no kind", streamed(vec![text.clone(), speech.raw_frame("[1]")]), after(Broken, "some")),
        ("no UTF-8", streamed(vec![Step::Chunk(b"data: \xff\n\n".into())]), ends(Broken)),
        ("a frame without end", streamed(vec![large]), ends(TooLarge)),
        ("a flood", streamed(flood), ends(TooLarge)),
        ("idling for ever", streamed(idle(30_000)), ends(TooLarge)),
        ("idling for a while", complete(idle(50)), Ok("some")),
        ("frames that nobody knows", complete(vec![speech.chunk(&json!({"type": "new", "x": [1]}))]), Ok("some")),
        ("empty pieces", complete(vec![speech.chunk(&(speech.text)(""))]), Ok("some")),
        ("the end twice", streamed([speech.whole("some"), speech.whole("more"), vec![end()]].concat()), {
            if has_end { Ok("some") } else { Ok("somemore") }
        }),
        (
            "the end, and nobody hangs up",
            streamed([speech.whole("some"), vec![gone()]].concat()),
            if has_end { Ok("some") } else { after(Incomplete, "some") },
        ),
    ]
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn each_fault_is_told_apart(#[values("openai", "anthropic", "gemini", "ollama")] provider: &str) {
    let speech = Speech::of(provider);
    let rows = rows(speech);
    assert!(rows.len() + STATUSES.len() > 40);
    for (name, steps, expected) in rows {
        let wire = Wire::serve(vec![steps]).await;
        let (said, ended) = ask(&speech.at(&wire)).await;
        assert!(wire.waiting() <= 1, "{provider}, {name}: a failed call is sent again");
        let text: String = said.iter().filter_map(text).collect();
        match (expected, ended) {
            (Ok(words), Ok(())) => assert_eq!(text, words, "{provider}, {name}"),
            (Err((kind, after, words)), Err(failure)) => {
                let got = (failure.kind, failure.retry_after_ms);
                assert_eq!(got, (kind, after), "{provider}, {name}: {}", failure.message);
                assert!(text.starts_with(words), "{provider}, {name}: {text}");
                assert!(text.len() < 30_000, "what is heard is bounded");
            }
            (expected, ended) => panic!("{provider}, {name}: {ended:?} is not {expected:?}"),
        }
    }
}

#[rstest]
#[tokio::test]
async fn each_status_says_what_can_be_done(#[values("openai", "anthropic", "gemini", "ollama")] provider: &str) {
    let speech = Speech::of(provider);
    for (status, headers, said, kind, retry_after_ms) in STATUSES {
        let body = json!({"error": {"message": format!("{said}: key {KEY}")}}).to_string();
        let wire = Wire::serve(vec![answer(status, headers, &body)]).await;
        let failure = ask(&speech.at(&wire)).await.1.unwrap_err();
        assert_eq!((failure.kind, failure.retry_after_ms), (*kind, *retry_after_ms), "{provider}, {status} {headers}");
        assert_eq!(failure.http_status, status[..3].parse().ok());
        assert!(failure.message.contains(&format!("{said}: key [redacted]")), "{}", failure.message);
    }
}

#[rstest]
#[tokio::test]
async fn who_cannot_be_reached_is_worth_another_try(
    #[values("openai", "anthropic", "gemini", "ollama")] provider: &str,
) {
    let speech = Speech::of(provider);
    let (closed, _held) = unused_address();
    let closed = format!("http://{closed}");
    let failure = ask(&speech.model(&closed)).await.1.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    let said = &failure.message;
    assert!(
        said.starts_with(&format!("the provider cannot be reached at {}: ", &closed[7..])) && said.contains("refused"),
        "{said}"
    );

    // The server answers, but not in TLS.
    let wire = Wire::serve(vec![vec![Step::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n".into())]]).await;
    let failure = ask(&speech.model(&format!("https://{}", wire.address))).await.1.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable, "{}", failure.message);
}

/// Usage counts come early, late, repeatedly, or never: a reply is complete without them, and the last ones count.
#[rstest]
#[tokio::test]
async fn usage_is_heard_whenever_it_comes(#[values("openai", "anthropic", "gemini", "ollama")] provider: &str) {
    let speech = Speech::of(provider);
    let usage = |i, o| speech.chunk(&(speech.usage)(i, o));
    let (text, ending) = (speech.chunk(&(speech.text)("some")), speech.whole("")[1..].to_vec());
    // Ollama's last event is its stop.
    let late = if provider == "ollama" { 0 } else { 1 };
    let mut rows = vec![(Vec::new(), None), (vec![(0, usage(3, 4))], Some((3, 4)))];
    rows.push((vec![(1, usage(3, 1)), (0, usage(3, 0))], Some((3, 1))));
    rows.push((vec![(1 + late, usage(3, 4)), (0, usage(3, 1))], Some((3, 4))));
    for (counts, expected) in rows {
        let mut steps = [vec![text.clone()], ending.clone()].concat();
        counts.into_iter().for_each(|(at, step)| steps.insert(at, step));
        let wire = Wire::serve(vec![[vec![speech.head()], steps, vec![end()]].concat()]).await;
        let (said, ended) = ask(&speech.at(&wire)).await;
        assert_eq!(ended, Ok(()), "{provider}");
        let told = said.iter().filter_map(|delta| match delta {
            Delta::Usage(usage) => Some((usage.input_tokens, usage.output_tokens)),
            Delta::Text(_)
            | Delta::Thinking(_)
            | Delta::WasThinking
            | Delta::ToolCall { .. }
            | Delta::Replay(_)
            | Delta::Stop(_) => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{provider}");
    }
}

/// Quota and delays in the vendors' own messages.
#[tokio::test]
async fn what_a_body_says_counts_where_no_header_does() {
    let delayed = json!([{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]}}]);
    let spent = json!({"error": {"message": "m", "type": "insufficient_quota"}});
    for (provider, body, kind, after) in [("gemini", delayed, Retry, Some(1_500)), ("openai", spent, Refused, None)] {
        let wire = Wire::serve(vec![answer("429 Too Many Requests", "", &body.to_string())]).await;
        let failure = ask(&Speech::of(provider).at(&wire)).await.1.unwrap_err();
        assert_eq!((failure.kind, failure.retry_after_ms), (kind, after));
    }
}

fn text(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Text(text) => Some(text),
        Delta::Thinking(_)
        | Delta::WasThinking
        | Delta::ToolCall { .. }
        | Delta::Replay(_)
        | Delta::Usage(_)
        | Delta::Stop(_) => None,
    }
}
