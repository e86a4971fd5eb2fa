use std::cell::Cell;

use proptest::prelude::*;

use super::super::tests::{answer, user};
use super::super::{Choice, choose};
use super::*;

thread_local! {
    /// How many texts were normalised on this thread.
    pub(super) static NORMALISED: Cell<usize> = const { Cell::new(0) };
}

fn candidate(shown: &[Shown]) -> Candidate {
    let shown = shown.to_vec().into();
    Candidate { thread: "t".into(), run: "run_1".into(), seq: 1, shown, ends_there: true, may_be_cut: false }
}

#[test]
fn each_text_is_brought_into_its_normal_form_once() {
    const EMPTY: usize = 30_000;
    let long = "It is seven.\n".repeat(70_000);
    NORMALISED.set(0);
    let shown = [Shown::Answer(Normal::of("Hello.")), Shown::Answer(Normal::of(&long))];
    let found: Vec<Candidate> = (0..20).map(|_| candidate(&shown)).collect();
    let begin = [user("hi"), answer("Hello."), user("and?")];
    let empty = vec![answer(""); EMPTY];
    let said = [&begin[..], &empty[..], &[answer(&long), user("well?")][..]].concat();
    let sent = SentBack::of(&said);
    assert_eq!(choose(&sent, &found), Choice::Continue(&found[0]));
    // The texts that were shown, and those that are sent back.
    assert_eq!(NORMALISED.get(), 2 + (EMPTY + 2));
    assert!(sent.steps(&found) > 20 * EMPTY);
}

#[test]
fn what_takes_too_long_to_compare_is_not_the_same() {
    let shown: Vec<Shown> = (0..2_000).map(|at| Shown::Question(Normal::of(&format!("May I {at}?")))).collect();
    let last = answer("May I 1999?");
    let all: Vec<Said> = (0..2_000).map(|at| answer(&format!("May I {at}?"))).collect();
    let found = [candidate(&shown)];
    assert_eq!(choose(&SentBack::of(&all), &found), Choice::Continue(&found[0]));
    // The last question repeated many times; each repetition compares with all questions.
    let again = [all, vec![last; 5_000]].concat();
    assert_eq!(choose(&SentBack::of(&again), &found), Choice::Begin);
}

#[test]
fn the_beginning_of_a_list_is_what_was_shown_until_then() {
    let all: Arc<[Shown]> = ["a", "b"].map(|text| Shown::Answer(Normal::of(text))).into();
    assert_eq!(ShownUntil::new(all.clone(), 1), vec![all[0].clone()].into());
    assert_eq!(ShownUntil::new(all.clone(), 9).as_slice(), &*all);
    assert_ne!(ShownUntil::new(all.clone(), 1), ShownUntil::new(all, 2));
}

/// The same in a simple form: compares each message with all items that are not answered yet.
fn is_plainly_same(shown: &[Shown], said: &[Said]) -> bool {
    let (mut from, mut seen) = (0, HashSet::new());
    for one in said {
        let Said::Assistant { text, calls } = one else { continue };
        let text = Normal::of(text);
        let rest = &shown[from..];
        let end = rest.iter().position(|one| matches!(one, Shown::Answer(_))).map_or(shown.len(), |at| from + at);
        let is_answer = shown.get(end) == Some(&Shown::Answer(text.clone())) && calls.is_empty();
        if is_answer && (from..end).all(|at| seen.contains(&at)) {
            from = end + 1;
            continue;
        }
        let mut rest = &*text.0;
        for (at, one) in shown.iter().enumerate().take(end).skip(from) {
            let Shown::Question(question) = one else { continue };
            let Some(behind) = rest.strip_prefix(&*question.0) else { continue };
            if behind.is_empty() || behind.starts_with(QUESTION_SEPARATOR) {
                rest = behind.strip_prefix(QUESTION_SEPARATOR).unwrap_or_default();
                seen.insert(at);
            }
        }
        for call in calls {
            let at = (from..end).find(|at| shown[*at] == Shown::Call(call.as_str().into()));
            let Some(at) = at else { return false };
            seen.insert(at);
        }
        if !rest.is_empty() {
            return false;
        }
    }
    (from..shown.len()).all(|at| seen.contains(&at))
}

fn shown() -> impl Strategy<Value = Shown> {
    let text = || prop::sample::select(vec!["a", "b", "a --- b"]);
    prop_oneof![
        text().prop_map(|text| Shown::Answer(Normal::of(text))),
        text().prop_map(|text| Shown::Question(Normal::of(text))),
        prop::sample::select(vec!["c", "d"]).prop_map(|id| Shown::Call(id.into())),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let text = prop::sample::select(vec!["", "a", "b", "a --- b", "b --- a", "a --- a --- b"]);
    let calls = prop::collection::vec(prop::sample::select(vec!["c", "d"]), 0..2);
    let said = |(text, calls): (&str, Vec<&str>)| Said::Assistant {
        text: text.to_owned(),
        calls: calls.into_iter().map(str::to_owned).collect(),
    };
    (text, calls).prop_map(said)
}

/// What a client sends back after it was shown this, with its possible additions.
fn sent_back(shown: &[Shown]) -> Vec<Said> {
    let sent = |one: &Shown| match one {
        Shown::Answer(text) | Shown::Question(text) => answer(&text.0),
        Shown::Call(id) => Said::Assistant { text: String::new(), calls: vec![id.to_string()] },
    };
    shown.iter().map(sent).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn it_is_the_same_as_when_it_is_compared_plainly(
        shown in prop::collection::vec(shown(), 0..5),
        other in prop::collection::vec(said(), 0..5),
        place in 0..6usize,
        more in said(),
    ) {
        let mut near = sent_back(&shown);
        near.insert(place.min(near.len()), more);
        for said in [sent_back(&shown), near, other] {
            let mut steps = usize::MAX;
            let same = is_same(&shown, &SentBack::of(&said), &mut steps);
            prop_assert_eq!(same, Some(is_plainly_same(&shown, &said)), "{:?} {:?}", &shown, &said);
        }
    }
}
