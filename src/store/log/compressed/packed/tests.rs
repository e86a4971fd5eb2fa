use proptest::prelude::*;

use super::*;

const ID: &str = "01a22d6a-702c-7000-a443-36659c0cb634";
const DIGEST: &str = "88233d35db8e23f75581ddf11c19d5f6";

fn is_same(text: &str) -> usize {
    let packed = packed(text);
    assert_eq!(unpacked(&packed, text.len()).as_deref(), Some(text.as_bytes()), "{text}");
    packed.len()
}

#[test]
fn an_id_takes_seventeen_bytes() {
    assert_eq!(is_same(ID), 17);
    assert_eq!(is_same(DIGEST), 17);
    assert_eq!(is_same(&format!(r#"{{"id":"obs_{ID}","digest":"{DIGEST}{DIGEST}"}}"#)), 25 + 3 * 17);
}

#[test]
fn what_is_only_like_an_id_stays_as_it_is() {
    let (upper, wrong) = (ID.to_uppercase(), ID.replace('6', "g"));
    for text in ["", "f", &ID[..35], &DIGEST[1..], &upper, &wrong, &DIGEST.to_uppercase(), &format!("a{ID}")] {
        assert_eq!(is_same(text), text.len(), "{text}");
    }
    // Digits and hyphens may follow.
    assert_eq!(is_same(&format!("{ID}0-{DIGEST}0")), 17 + 2 + 17 + 1);
}

#[test]
fn damage_is_noticed() {
    let text = format!("a{ID}b{DIGEST}");
    let whole = packed(&text);
    for end in 0..whole.len() {
        assert_eq!(unpacked(&whole[..end], text.len()), None, "cut at {end}");
    }
}

/// In quadratic time this would take minutes.
#[test]
fn a_million_digits_are_packed_as_fast_as_others() {
    let digits = DIGEST.repeat(1 << 15);
    assert_eq!(is_same(&digits), 17 << 15);
    assert_eq!(is_same(&digits.replace("88233d35", "88233d3-")), digits.len());
}

proptest! {
    #[test]
    fn every_text_is_unpacked_as_it_was(text in "([0-9a-f]{0,40}-?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\PC{0,3}){0,9}") {
        let packed = packed(&text);
        prop_assert!(packed.len() <= text.len());
        prop_assert!(text.is_empty() || text.len() < packed.len() * MAX_RATIO);
        prop_assert_eq!(unpacked(&packed, text.len()), Some(text.into_bytes()));
    }
}
