use super::*;

fn text(length: usize) -> Vec<Delta> {
    vec![Delta::Text("x".repeat(length))]
}

/// How many events of this size and content are accepted.
fn passes(limit: usize, event: usize, deltas: &[Delta]) -> usize {
    let mut size = ReplySize::new(limit);
    (0..100_000)
        .take_while(|_| size.add_bytes(event).and_then(|()| size.count_event(&mut deltas.to_vec(), 0)).is_ok())
        .count()
}

#[test]
fn words_count_and_their_envelopes_do_not() {
    assert_eq!(passes(1_000, 250, &text(1)), 1_000, "a token a chunk");
    assert_eq!(passes(1_000, 250, &text(4)), 250);
    assert_eq!(passes(1_000, 3_000, &text(1_000)), 1, "all of it, escaped, in one");
    assert_eq!(passes(1_000, 1_001, &text(1_001)), 0);
}

#[test]
fn what_says_nothing_counts_as_it_came() {
    assert_eq!(passes(1_000, 16, &[]), 62, "pings");
    assert_eq!(passes(1_000, 16, &[Delta::Usage(Default::default())]), 62);
    assert_eq!(passes(10_000, 2_029, &text(1)), 9, "a token and two kilobytes beside it");
    let mut size = ReplySize::new(1_000);
    assert!(size.add_bytes(4_024).is_ok() && size.add_bytes(1_001).is_err(), "an event without end");
}
