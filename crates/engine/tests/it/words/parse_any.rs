//! Arbitrary text: no parser panics or is slow, and no tag is shown.

use std::time::{Duration, Instant};

use pes_engine::parse::tags::{TagFilter, split};
use pes_engine::parse::{step, synthesis};
use proptest::prelude::*;

use super::{native, plan, reply};
use crate::cases::cases;

/// Pieces that reach every branch of the parsers.
fn wordy() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "'",
        "\\",
        "\\u",
        "d83d",
        "/",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        "<",
        ">",
        "é",
        "😀",
        "1",
        "-",
        "e9",
        "true",
        "nul",
        "\"todoList\"",
        "\"id\"",
        "\"toolCalls\"",
        "\"content\"",
        "\"arguments\"",
        "\"plan\"",
        "```json",
        "```",
        "---JSON_OUTPUT_START---",
        "---JSON_OUTPUT_END---",
        "<mainContent>",
        "</mainContent>",
        "<uiMetadata>",
        "</uiMetadata>",
        "<main",
        "Content>",
        "<ui",
        "</UIMETADATA>",
        "Metadata>",
        "text",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn read_all(text: &str) {
    let _ = plan(text, &[]);
    let _ = plan(text, &[native("t", text)]);
    let _ = step(&reply(text));
    let _ = synthesis(text);
}

/// The same text through a filter, split at these places.
fn in_pieces(text: &str, cuts: &[usize]) -> (String, Vec<String>) {
    let mut filter = TagFilter::default();
    let mut shown = String::new();
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    cuts.sort_unstable();
    for cut in cuts {
        shown.push_str(&filter.push(&text[from..cut]));
        from = cut;
    }
    shown.push_str(&filter.push(&text[from..]));
    let (rest, metadata) = filter.finish();
    (shown + &rest, metadata)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_words_panic(text in wordy()) {
        read_all(&text);
    }

    #[test]
    fn a_filter_gives_the_same_however_the_reply_is_cut(text in wordy(), cuts in prop::collection::vec(0usize..500, 0..20)) {
        prop_assert_eq!(in_pieces(&text, &cuts), split(&text));
    }

    #[test]
    fn no_tag_is_ever_shown(text in wordy()) {
        let shown = split(&text).0.to_lowercase();
        for tag in ["<maincontent>", "</maincontent>", "<uimetadata>", "</uimetadata>"] {
            prop_assert!(!shown.contains(tag), "{shown}");
        }
    }

    #[test]
    fn text_without_our_tags_is_shown_whole(text in "[<>a-z/ \n{}\"é]{0,80}") {
        prop_assert_eq!(split(&text), (text, vec![]));
    }

    #[test]
    fn any_json_comes_back_through_a_fence_and_prose(value in json_object()) {
        let text = format!("Here it is:\n```json\n{value:#}\n```\nDone.");
        let draft = step(&reply(&format!("{{\"toolCalls\":[{{\"toolName\":\"t\",\"arguments\":{value}}}]}}")));
        prop_assert_eq!(&draft.calls[0].arguments, &Ok(value));
        let _ = plan(&text, &[]);
    }
}

fn json_object() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|number| if number.is_finite() { number.into() } else { 0.into() }),
        any::<String>().prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,8}", value, 0..5)
        .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
}

/// The worst input for a parser, half a mebibyte of it. The bound is generous, for unoptimised builds on busy machines;
/// a parser that is not linear takes hours.
#[rstest::rstest]
#[case::open_objects("{")]
#[case::open_lists("[")]
#[case::keys("{\"a\":")]
#[case::failing_lists("[1,2,x")]
#[case::half_keys("{\"{'")]
#[case::small_objects("{}")]
#[case::nested_pairs("[[],")]
#[case::items("{\"todoList\":[{\"id\":1,\"description\":\"a\"},")]
#[case::digits("[1")]
#[case::only_digits("1")]
#[case::escapes("\"\\u00e9\\")]
#[case::comments("[/*")]
#[case::angles("<")]
#[case::tags("<uiMetadata>")]
#[case::fences("```json\n")]
#[case::markers("---JSON_OUTPUT_START---")]
#[case::same_ids("{\"id\":\"a\",\"description\":\"b\"},")]
fn long_replies_are_read_in_linear_time(#[case] piece: &str) {
    let begin = if piece.starts_with("{\"id\"") { "{\"todoList\":[" } else { "[" };
    let text = format!("{begin}{}", piece.repeat((1 << 19) / piece.len()));
    let started = Instant::now();
    read_all(&text);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
