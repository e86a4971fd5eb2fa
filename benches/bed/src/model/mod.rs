//! A scripted model on loopback: Chat Completions as a stream of server-sent events, as fast as sockets allow. At `/tool` it is
//! a service that is called as a tool, and at `/v1/traces` a collector that accepts everything.
//!
//! Guarantee: an answer depends only on the request (`script`) and, with errors, on the number of earlier requests.

pub mod script;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::http::{Framing, head};
use crate::process;
use script::{Knobs, Stage};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 33\r\n\r\n{\"error\":{\"message\":\"try again\"}}\n";
const TOOL: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{\"result\":42}";
/// Answer of a trace collector: an empty message means that all was accepted.
const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

/// Serves until the process ends. With `errors`, every so many calls one is answered 503.
pub async fn serve(errors: Option<u64>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    process::announce(listener.local_addr()?);
    let calls = Arc::new(AtomicU64::new(0));
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let calls = calls.clone();
        tokio::spawn(async move {
            // The connection was closed.
            let _ = converse(socket, errors, &calls).await;
        });
    }
}

async fn converse(mut socket: TcpStream, errors: Option<u64>, calls: &AtomicU64) -> io::Result<()> {
    let (mut read, mut out) = (Vec::with_capacity(16 << 10), Vec::with_capacity(8 << 10));
    loop {
        let Some((body, end)) = request(&mut socket, &mut read).await? else {
            return Ok(());
        };
        let nth = calls.fetch_add(1, Ordering::Relaxed) + 1;
        if read.starts_with(b"POST /tool") {
            socket.write_all(TOOL).await?;
        } else if read.starts_with(b"POST /v1/traces") {
            socket.write_all(TAKEN).await?;
        } else if errors.is_some_and(|every| nth.is_multiple_of(every)) {
            socket.write_all(BUSY).await?;
        } else {
            answer(&mut socket, &read[body..end], &mut out).await?;
        }
        read.drain(..end);
    }
}

/// Range of the next request's body; `None` at the end of the connection.
async fn request(socket: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(head) = head(read) {
            let Framing::Length(length) = head.framing else {
                return Err(io::Error::other("the scripted model reads bodies of a known length"));
            };
            let end = head.size + length;
            while read.len() < end {
                if socket.read_buf(read).await? == 0 {
                    return Ok(None);
                }
            }
            return Ok(Some((head.size, end)));
        }
        if socket.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer(socket: &mut TcpStream, body: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let stage = Stage::of(body);
    let knobs = Knobs::read(body, stage);
    out.clear();
    out.extend_from_slice(HEAD);
    let mut stop = "stop";
    match stage {
        Stage::Plan => {
            let plan = script::plan(&knobs);
            pieces(&plan).for_each(|piece| text(out, piece));
        }
        Stage::Call => {
            call(out, knobs.tool.as_deref().unwrap_or("calculator"));
            stop = "tool_calls";
        }
        Stage::Text | Stage::Answer if knobs.is_timed => timed(socket, &knobs, out).await?,
        Stage::Text | Stage::Answer => (0..knobs.tokens).for_each(|_| text(out, "42 ")),
    }
    let end = format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{stop}"}}"#);
    event(out, &[br#"{"object":"chat.completion.chunk","choices":["#, end.as_bytes(), b"]}"]);
    event(
        out,
        &[br#"{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":40}}"#],
    );
    event(out, &[b"[DONE]"]);
    out.extend_from_slice(b"0\r\n\r\n");
    socket.write_all(out).await
}

/// Writes each token separately, at its time.
async fn timed(socket: &mut TcpStream, knobs: &Knobs, out: &mut Vec<u8>) -> io::Result<()> {
    let began = Instant::now();
    for nth in 0..knobs.tokens {
        match knobs.delay_us {
            0 => tokio::task::yield_now().await,
            delay => tokio::time::sleep_until(began + Duration::from_micros(delay * nth as u64)).await,
        }
        text(out, &format!("{:015} ", process::monotonic_us()));
        socket.write_all(out).await?;
        out.clear();
    }
    Ok(())
}

/// Splits text into pieces of about a token's length.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut left = text;
    std::iter::from_fn(move || {
        let end = left.char_indices().nth(8).map_or(left.len(), |(at, _)| at);
        let (piece, rest) = left.split_at(end);
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn text(out: &mut Vec<u8>, said: &str) {
    const BEFORE: &[u8] =
        br#"{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"bed","choices":[{"index":0,"delta":{"content":"#;
    let said = json!(said).to_string();
    event(out, &[BEFORE, said.as_bytes(), br#"},"finish_reason":null}]}"#]);
}

fn call(out: &mut Vec<u8>, tool: &str) {
    let function = json!({ "name": tool, "arguments": script::arguments(tool).to_string() });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    let choice = json!({ "index": 0, "delta": { "tool_calls": [call] }, "finish_reason": null });
    let chunk = json!({ "object": "chat.completion.chunk", "choices": [choice] });
    event(out, &[chunk.to_string().as_bytes()]);
}

/// One event in its own chunk.
fn event(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>() + b"data: \n\n".len();
    out.extend_from_slice(format!("{length:x}\r\ndata: ").as_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\n\n\r\n");
}
