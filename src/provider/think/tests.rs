use proptest::prelude::*;

use super::*;

/// All text and all thinking, concatenated.
fn split<'a>(parts: impl IntoIterator<Item = &'a str>) -> (String, String) {
    let (mut splitter, mut deltas) = (Splitter::default(), Vec::new());
    parts.into_iter().for_each(|part| splitter.push_deltas(part.to_owned(), &mut deltas));
    splitter.finish(&mut deltas);
    let (mut text, mut thinking) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::Thinking(piece) => thinking.push_str(&piece),
            Delta::WasThinking => thinking.push_str(&std::mem::take(&mut text)),
            other @ (Delta::ToolCall { .. } | Delta::Replay(_) | Delta::Usage(_) | Delta::Stop(_)) => {
                panic!("{other:?}")
            }
        }
    }
    (text, thinking)
}

#[test]
fn thinking_is_split_off_at_every_position_of_the_pieces() {
    let table = [
        ("<think>hm</think>yes", "yes", "hm"),
        ("a<think>b</think>c<think>d</think>e", "ace", "bd"),
        ("1 < 2 and <b>2</b> > 1 <", "1 < 2 and <b>2</b> > 1 <", ""),
        ("before <think>never closed <", "before ", "never closed <"),
        ("hm\n</think>\n\nyes", "\n\nyes", "hm\n"),
        ("hm</think>yes</think>.", "yes.", "hm"),
        ("<think>a</think>b</think>c", "bc", "a"),
        ("never answered</think>", "never answered", ""),
        ("the tag </think> ends it", "the tag  ends it", ""),
        ("the tag `</think>` ends it", "the tag `</think>` ends it", ""),
        ("<<think>a<</think></th", "<</th", "a<"),
        ("say `<think>` or \"<think>\"", "say `<think>` or \"<think>\"", ""),
        ("<think>say \"hi\"</think>hi", "hi", "say \"hi\""),
        ("é<think>ü</think>ß<thin", "éß<thin", "ü"),
    ];
    for (whole, text, thinking) in table {
        let expected = (text.to_owned(), thinking.to_owned());
        for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            let (left, right) = whole.split_at(at);
            assert_eq!(split([left, right]), expected, "{whole} split at {at}");
        }
        assert_eq!(split(whole.split_inclusive(|_| true)), expected);
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_splits_do_not_matter(
        parts in prop::collection::vec("(<think>|</think>|<|thi|nk>|/|[a\"`é ]){0,4}", 0..8),
    ) {
        let whole = parts.concat();
        let (text, thinking) = split(parts.iter().map(String::as_str));
        prop_assert_eq!((text.clone(), thinking.clone()), split([whole.as_str()]));
        let tags = (whole.len() - text.len() - thinking.len()) as i64;
        let opened = (0..=20).any(|open| (0..=20).any(|close| open * 7 + close * 8 == tags));
        prop_assert!(opened, "{} bytes are missing from {:?}", tags, whole);
    }
}
