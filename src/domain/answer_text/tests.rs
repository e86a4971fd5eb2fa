use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn what_is_sent_is_the_text_without_the_blanks_around_it(pieces in prop::collection::vec("[ab \n\t\u{a0}é]{0,4}", 0..12)) {
        let mut text = AnswerText::default();
        let sent: String = pieces.iter().map(|piece| text.push(piece)).collect();
        let whole: String = pieces.concat();
        prop_assert_eq!(&sent, whole.trim());
        prop_assert_eq!(text.sent(), whole.trim());
        prop_assert_eq!(text.rest_of(whole.trim()), Some(""));
    }
}
