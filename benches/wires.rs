//! The cost of reading a reply of 100,000 tokens, from bytes to deltas, on each wire format; and of a tool call whose
//! arguments are a megabyte in 100,000 pieces.
//!
//! `cargo bench --features internals --bench wires`. Prints `MISSED` for a rate under a million tokens a second, and for
//! arguments that take longer than a second.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pes::domain::model::Delta;
use pes::provider::recorded;
use serde_json::{Value, json};

const TOKENS: usize = 100_000;
/// Bytes of one socket read.
const READ: usize = 16 * 1024;
const TARGET: f64 = 1_000_000.0;
const WIRES: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A reply of that many words, in the vendor's frames.
fn reply(wire: &str) -> Vec<u8> {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
        event(&json!({"id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG", "object": "chat.completion.chunk",
            "created": 1_795_255_200, "model": "gpt-4.1-mini", "system_fingerprint": "fp_44709d6fcb", "choices": [choice]}))
    };
    let (token, end) = match wire {
        "openai" => (chunk(json!({"content": " token"}), Value::Null), chunk(json!({}), json!("stop"))),
        "anthropic" => {
            let delta = json!({"type": "text_delta", "text": " token"});
            let token = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            let stop = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
            (format!("event: content_block_delta\n{}", event(&token)), event(&stop))
        }
        "gemini" => {
            let of = |parts: Value, reason: Value| {
                let candidate =
                    json!({"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": 0});
                event(&json!({"candidates": [candidate], "modelVersion": "gemini-2.5-flash"}))
            };
            (of(json!([{"text": " token"}]), Value::Null), of(json!([]), json!("STOP")))
        }
        _ => {
            let line = |text: &str, done: bool| {
                let message = json!({"role": "assistant", "content": text});
                let at = "2026-11-21T10:00:00.000000Z";
                format!("{}\n", json!({"model": "llama3.2", "created_at": at, "message": message, "done": done}))
            };
            (line(" token", false), line("", true))
        }
    };
    (token.repeat(TOKENS) + &end).into_bytes()
}

fn arguments() -> Vec<u8> {
    let call =
        |function: Value| event(&json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}}]}));
    let pieces = call(json!({"arguments": "0123456789"})).repeat(TOKENS);
    let stop = event(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
    (call(json!({"name": "f"})) + &pieces + &stop).into_bytes()
}

/// Counts the deltas.
fn read(wire: &str, bytes: &[u8]) -> usize {
    let mut count = 0;
    let hear = |delta: Delta| {
        black_box(delta);
        count += 1;
    };
    recorded(wire, bytes.chunks(READ), hear).expect("the wire is known").expect("the reply is whole");
    count
}

/// The best of a few, to reduce interference of other programs.
fn seconds(wire: &str, bytes: &[u8]) -> f64 {
    let times = (0..5).map(|_| {
        let began = Instant::now();
        assert!(read(wire, bytes) >= TOKENS);
        began.elapsed()
    });
    times.min().expect("five were taken").as_secs_f64()
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn table(wires: &[(&str, Vec<u8>)], arguments: &[u8]) {
    for (wire, bytes) in wires {
        let rate = TOKENS as f64 / seconds(wire, bytes);
        println!("{wire:>10}: {:.2} million tokens a second, {}", rate / 1e6, verdict(rate >= TARGET));
    }
    let took = seconds("openai", arguments);
    println!("a megabyte of arguments in {TOKENS} pieces: {:.0} ms, {}", took * 1e3, verdict(took <= 1.0));
}

fn wires(criterion: &mut Criterion) {
    let replies: Vec<(&str, Vec<u8>)> = WIRES.into_iter().map(|wire| (wire, reply(wire))).collect();
    let bytes = arguments();
    table(&replies, &bytes);
    let mut group = criterion.benchmark_group("wires");
    group.throughput(Throughput::Elements(TOKENS as u64)).sample_size(10);
    for (wire, bytes) in &replies {
        group.bench_function(*wire, |bencher| bencher.iter(|| read(wire, bytes)));
    }
    group.bench_function("a megabyte of arguments", |bencher| bencher.iter(|| read("openai", &bytes)));
    group.finish();
}

criterion_group!(benches, wires);
criterion_main!(benches);
