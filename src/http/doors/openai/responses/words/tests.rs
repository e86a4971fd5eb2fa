use proptest::prelude::*;

use super::*;

fn cut(pieces: &[&str]) -> Vec<String> {
    let mut words = WordSplitter::default();
    let mut all: Vec<String> = pieces.iter().flat_map(|piece| words.push(piece)).collect();
    all.extend(words.rest());
    all
}

#[test]
fn a_piece_is_a_word_with_the_blanks_behind_it() {
    assert_eq!(cut(&["Two and\n\ntwo. "]), ["Two ", "and\n\n", "two. "]);
    let long = "é".repeat(40);
    assert_eq!(cut(&[&long]), ["é".repeat(32), "é".repeat(8)]);
    let full = "a".repeat(64);
    assert_eq!(cut(&[&format!("{full}\u{3000}b")]), [format!("{full}\u{3000}"), "b".to_owned()]);
    assert_eq!(cut(&["\n\nmore"]), ["\n\n", "more"]);
}

proptest! {
    #[test]
    fn however_a_text_comes_it_is_cut_alike(
        text in "([a-zé]{0,90}[ \n\u{a0}]{0,3}){0,6}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(at.index(text.len() + 1))).collect();
        ends.push(text.len());
        ends.sort_unstable();
        let mut from = 0;
        let pieces: Vec<&str> = ends.iter().map(|end| &text[std::mem::replace(&mut from, *end)..*end]).collect();
        prop_assert_eq!(cut(&pieces), cut(&[&text]));
        prop_assert_eq!(cut(&[&text]).concat(), text.clone());
        prop_assert!(cut(&[&text]).iter().all(|piece| piece.trim_end().len() <= MAX_PIECE_BYTES));
    }
}
