use std::cell::Cell;

use super::*;

/// The first nonces of a run, as whoever knows its id can work them out.
fn foreseen(seed: &str, count: usize) -> Vec<String> {
    let mut number = fnv(seed);
    let mut nonces = Vec::with_capacity(count);
    for _ in 0..count {
        let nonce = format!("{:012x}", number & 0xFFFF_FFFF_FFFF);
        number = fnv(&nonce);
        nonces.push(nonce);
    }
    nonces
}

/// A prompt that shows this as data, and how often it was rendered for that.
fn shown(data: &str) -> (String, usize) {
    let count = Cell::new(0);
    let messages = with_markers("run_1", |marker| {
        count.set(count.get() + 1);
        vec![PromptMessage::User { content: marker.block("output", data) }]
    });
    let [PromptMessage::User { content }] = &messages[..] else { panic!("{messages:?}") };
    (content.clone(), count.get())
}

fn nonce_of(content: &str) -> &str {
    content.lines().next().and_then(|line| line.strip_prefix("--- BEGIN output ")?.strip_suffix(" ---")).unwrap()
}

#[test]
fn data_that_holds_what_can_be_foreseen_costs_a_few_rounds_and_closes_no_marker() {
    let evil = foreseen("run_1", 300).join(" ");
    let (content, rounds) = shown(&evil);
    assert!(rounds <= 5, "rendered {rounds} times");
    let nonce = nonce_of(&content);
    assert!(nonce.len() >= 32 && !evil.contains(nonce), "{nonce}");
    assert_eq!(content, format!("--- BEGIN output {nonce} ---\n{evil}\n--- END output {nonce} ---"));
    assert_eq!(shown(&evil).0, content, "a prompt is the same whenever it is rendered");
    // Whoever has seen that nonce gains nothing: with it the data is another.
    let (content, rounds) = shown(&format!("{evil} {nonce}"));
    assert!(rounds <= 5 && nonce_of(&content) != nonce);
}

#[test]
fn what_holds_no_nonce_is_rendered_once() {
    let (content, rounds) = shown("harmless");
    assert_eq!((rounds, nonce_of(&content)), (1, foreseen("run_1", 1)[0].as_str()));
}
