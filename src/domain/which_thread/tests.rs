use proptest::prelude::*;

use super::*;

pub(super) fn user(text: &str) -> Said {
    Said::User(text.to_owned())
}

pub(super) fn answer(text: &str) -> Said {
    Said::Assistant { text: text.to_owned(), calls: Vec::new() }
}

fn sender(user: Option<&str>) -> Sender<'_> {
    Sender { tenant: TenantPk(1), key: "shared", user }
}

#[test]
fn the_next_request_comes_to_the_key_of_the_one_before() {
    let first = [user("hi")];
    let next = [user(" hi\n"), answer("Hello."), user("and?")];
    assert_eq!(keys_before(sender(None), &next), [key_of(sender(None), &first)]);
    assert_eq!(keys_before(sender(None), &first), []);
    let called = Said::Assistant { text: String::new(), calls: vec!["sus_1".to_owned()] };
    let result = |text: &str| Said::ToolResult { call: "sus_1".to_owned(), text: text.to_owned() };
    let with_result = [user("hi"), called.clone(), result("7")];
    let after = [user("hi"), called, result("7"), answer("Seven."), user("and?")];
    assert_eq!(keys_before(sender(None), &after), [key_of(sender(None), &with_result)]);
    assert_ne!(key_of(sender(None), &[result("7")]), key_of(sender(None), &[result("8")]));
}

#[test]
fn other_senders_come_to_other_keys() {
    let said = [user("hi")];
    let mine = key_of(sender(Some("ann")), &said);
    let others = [
        sender(Some("bob")),
        sender(None),
        Sender { key: "other", ..sender(Some("ann")) },
        Sender { tenant: TenantPk(2), ..sender(Some("ann")) },
        Sender { key: "sharedann", ..sender(None) },
    ];
    for other in others {
        assert_ne!(key_of(other, &said), mine, "{other:?}");
    }
    // The content of one message is never taken for two messages.
    let one = [user("a\",\"b")];
    assert_ne!(key_of(sender(None), &one), key_of(sender(None), &[user("a"), user("b")]));
}

#[test]
fn an_answer_is_known_in_other_clothes_and_not_in_other_words() {
    for same in ["It is  seven.\n", "<think>3 + 4</think>It is seven.", "It is<details open>x\n</details> seven."] {
        assert_eq!(normal(same), "It is seven.", "{same}");
    }
    assert_eq!(normal("<think>it goes on"), "<think>it goes on");
    assert_ne!(normal("It is eight."), normal("It is seven."));
}

fn candidate(thread: &str, shown: &[&str], ends_there: bool) -> Candidate {
    let shown: Vec<Shown> = shown.iter().map(|text| Shown::Answer(Normal::of(text))).collect();
    Candidate { thread: thread.into(), run: "run_1".into(), seq: 1, shown: shown.into(), ends_there, may_be_cut: false }
}

#[test]
fn the_newest_thread_that_ends_there_goes_on_else_the_newest_is_copied() {
    let said = SentBack::of(&[user("hi"), answer("Hello."), user("and?")]);
    let other = candidate("other", &["Good day."], true);
    let longer = candidate("longer", &["Hello.", "Hello."], true);
    let [went_on, ended, older] =
        [("went on", false), ("ended", true), ("older", true)].map(|(id, ends)| candidate(id, &["Hello."], ends));
    let found = [other.clone(), longer.clone(), went_on.clone(), ended.clone(), older];
    assert_eq!(choose(&said, &found), Choice::Continue(&ended));
    assert_eq!(choose(&said, &[other.clone(), went_on.clone()]), Choice::Fork(&went_on));
    assert_eq!(choose(&said, &[other, longer]), Choice::Begin);
}

/// An edited answer is not an answer that the agent gave.
#[test]
fn a_thread_with_another_answer_anywhere_is_not_taken() {
    let said = [user("hi"), answer("Hello!"), user("and?"), answer("So."), user("well?")];
    assert_eq!(choose(&SentBack::of(&said), &[candidate("t", &["Hello.", "So."], true)]), Choice::Begin);
    let history = earlier(&said);
    let texts: Vec<&str> = history.iter().map(|one| one.content.as_str()).collect();
    assert_eq!(texts, ["hi", "Hello!", "and?", "So."]);
    assert_eq!(new_messages(&said), [user("well?")]);
}

#[test]
fn a_thread_that_may_have_begun_with_the_newest_messages_is_taken_if_no_other_is() {
    let said = [user("hi"), answer("Hello."), user("and?"), answer("So."), user("well?")];
    let sent = SentBack::of(&said);
    let whole = candidate("whole", &["Hello.", "So."], false);
    let cut = |shown: &[&str]| Candidate { may_be_cut: true, ..candidate("cut", shown, true) };
    assert_eq!(choose(&sent, &[cut(&["So."]), whole.clone()]), Choice::Fork(&whole));
    assert_eq!(choose(&sent, &[cut(&["So."])]), Choice::Continue(&cut(&["So."])));
    assert_eq!(choose(&sent, &[candidate("whole", &["So."], true)]), Choice::Begin);
    for other in [&["Hello."][..], &["No.", "So."], &["So.", "So."], &[]] {
        assert_eq!(choose(&sent, &[cut(other)]), Choice::Begin, "{other:?}");
    }
}

#[test]
fn on_a_named_thread_the_last_answer_says_where_it_goes_on() {
    let after = |text: &str| ResumePoint::After(Normal::of(text));
    let cases: [(&[Said], ResumePoint<'_>); 6] = [
        (&[answer("So."), user("new")], after("So.")),
        (&[user("hi"), answer("<think>x</think> Hello."), user("and?")], after("Hello.")),
        (&[answer("Hello."), user("and?"), answer("So."), user("new")], after("So.")),
        (&[user(" hi ")], ResumePoint::StartOf("hi")),
        (&[user("hi"), user("there")], ResumePoint::End),
        (&[], ResumePoint::End),
    ];
    for (said, wants) in cases {
        assert_eq!(resume_point(said), wants, "{said:?}");
    }
}

#[test]
fn what_was_asked_is_sent_back_once_or_more_often_and_together_or_not() {
    let question = |text: &str| Shown::Question(Normal::of(text));
    let called = |text: &str, id: &str| Said::Assistant { text: text.to_owned(), calls: vec![id.to_owned()] };
    let shown = [question("May I?"), question("Which?"), Shown::Call("c".into()), Shown::Answer(Normal::of("Done."))];
    let is_same = |said: &[Said]| {
        let mut steps = MAX_STEPS;
        is_same(&shown, &SentBack::of(said), &mut steps) == Some(true)
    };
    let together = called("May I?\n\n---\n\nWhich?", "c");
    let yes: [&[Said]; 3] = [
        &[user("x"), together.clone(), user("yes"), answer("Done.")],
        &[user("x"), together.clone(), user("hm"), together.clone(), user("yes"), answer("Which?"), answer("Done.")],
        &[answer("May I?"), called("Which?", "c"), answer("Done.")],
    ];
    for said in yes {
        assert!(is_same(said), "{said:?}");
    }
    let no: [&[Said]; 6] = [
        &[answer("Done.")],
        &[answer("May I?"), answer("Which?"), answer("Done.")],
        &[together.clone(), answer("Done."), answer("Done.")],
        &[together.clone(), answer("Done."), answer("May I?")],
        &[called("May I? Which?", "c"), answer("Which?"), answer("Done.")],
        &[together],
    ];
    for said in no {
        assert!(!is_same(said), "{said:?}");
    }
}

#[test]
fn a_question_that_was_put_again_is_found_where_it_was_put_first() {
    let said = [user("send"), answer("May I?"), user("hm"), answer("May I?"), user("yes")];
    let keys = keys_before(sender(None), &said);
    assert_eq!(keys, [key_of(sender(None), &said[..3]), key_of(sender(None), &said[..1])]);
    let other = [user("send"), answer("What?"), user("hm"), answer("May I?"), user("yes")];
    assert_eq!(keys_before(sender(None), &other).len(), 1);
}

#[test]
fn a_question_that_was_put_very_often_is_looked_for_where_it_was_put_last() {
    let put = [answer("May I?"), user("hm")];
    let said = [vec![user("send")], vec![put; 9].concat()].concat();
    let last_eight = (2..=9).rev().map(|nth| key_of(sender(None), &said[..2 * nth - 1]));
    assert_eq!(keys_before(sender(None), &said), last_eight.collect::<Vec<_>>());
}

/// A server that holds threads and chooses like an API endpoint does.
#[derive(Default)]
struct Server {
    threads: Vec<Thread>,
    /// The newest last.
    keys: Vec<(LookupKey, usize, usize)>,
    answered: usize,
}

#[derive(Clone, Default)]
struct Thread {
    said: Vec<Said>,
    /// The number of messages at the end of each run.
    runs: Vec<usize>,
    users: Vec<Option<usize>>,
}

impl Server {
    fn candidates(&self, key: &LookupKey) -> Vec<(Candidate, usize, usize)> {
        let of = |&(_, thread, run): &(LookupKey, usize, usize)| {
            let found = &self.threads[thread];
            let candidate = Candidate {
                thread: thread.to_string().as_str().into(),
                run: run.to_string().as_str().into(),
                seq: 1,
                shown: answers(&found.said[..found.runs[run]]).into(),
                ends_there: found.runs.len() == run + 1,
                may_be_cut: false,
            };
            (candidate, thread, run)
        };
        self.keys.iter().rev().filter(|(known, ..)| known == key).map(of).collect()
    }

    /// Processes a request; returns the answer, and the messages that the model received.
    fn serve(&mut self, by: Option<usize>, said: &[Said], words: usize) -> (String, Vec<Said>) {
        let name = by.map(|by| format!("user {by}"));
        let sender = sender(name.as_deref());
        let found: Vec<_> = keys_before(sender, said).iter().flat_map(|key| self.candidates(key)).collect();
        let candidates: Vec<Candidate> = found.iter().map(|(one, ..)| one.clone()).collect();
        let at =
            |one: &Candidate| found.iter().find(|(known, ..)| known == one).map(|(_, thread, run)| (*thread, *run));
        let thread = match choose(&SentBack::of(said), &candidates) {
            Choice::Continue(one) => at(one).unwrap().0,
            Choice::Fork(one) => {
                let (thread, run) = at(one).unwrap();
                let mut copy = self.threads[thread].clone();
                copy.said.truncate(copy.runs[run]);
                copy.runs.truncate(run + 1);
                self.add(copy)
            }
            Choice::Begin => {
                let taken_in = earlier(said).into_iter().map(|one| match one.role {
                    HistoryRole::User => Said::User(one.content),
                    HistoryRole::Assistant => answer(&one.content),
                });
                let said = taken_in.collect();
                self.add(Thread { said, ..Thread::default() })
            }
        };
        self.answered += 1;
        let text = ["yes", "no"][(words + self.answered) % 2].to_owned();
        let into = &mut self.threads[thread];
        into.said.extend(new_messages(said).iter().cloned());
        into.users.push(by);
        let shown = into.said.clone();
        into.said.push(answer(&text));
        into.runs.push(into.said.len());
        self.keys.push((key_of(sender, said), thread, into.runs.len() - 1));
        (text, shown)
    }

    fn add(&mut self, thread: Thread) -> usize {
        self.threads.push(thread);
        self.threads.len() - 1
    }
}

fn answers(said: &[Said]) -> Vec<Shown> {
    let answers = said.iter().filter_map(|said| match said {
        Said::Assistant { text, .. } => Some(Shown::Answer(Normal::of(text))),
        Said::User(_) | Said::ToolResult { .. } => None,
    });
    answers.collect()
}

/// An action of a user on one of their conversations.
#[derive(Clone, Debug)]
enum Deed {
    Say(usize),
    AskAgain,
    /// Replaces an earlier text and continues from there.
    Edit(usize, usize),
    EditAnswer(usize),
    Begin,
}

const WORDS: [&str; 3] = ["hi", "and?", "ok"];

fn deed() -> impl Strategy<Value = (usize, Deed, usize)> {
    let deed = prop_oneof![
        4 => (0..WORDS.len()).prop_map(Deed::Say),
        2 => Just(Deed::AskAgain),
        2 => (0..4usize, 0..WORDS.len()).prop_map(|(at, word)| Deed::Edit(at, word)),
        1 => (0..4usize).prop_map(Deed::EditAnswer),
        1 => Just(Deed::Begin),
    ];
    (0..5usize, deed, 0..2usize)
}

fn plain(said: &[Said]) -> Vec<(bool, String)> {
    let texts = said.iter().filter_map(|said| match said {
        Said::User(text) => Some((true, text.trim().to_owned())),
        Said::Assistant { text, .. } => Some((false, normal(text))),
        Said::ToolResult { .. } => None,
    });
    texts.collect()
}

/// Leaves the request of the action in `said`; `false`: there is nothing to send.
fn act(said: &mut Vec<Said>, deed: &Deed) -> bool {
    let places: Vec<usize> = (0..said.len()).filter(|at| matches!(said[*at], Said::User(_))).collect();
    match deed {
        Deed::Say(word) => said.push(user(WORDS[*word])),
        Deed::AskAgain => drop(said.pop()),
        Deed::Edit(at, word) => {
            let Some(place) = places.get(*at) else { return false };
            said.truncate(*place);
            said.push(user(WORDS[*word]));
        }
        Deed::EditAnswer(at) => {
            let Some(place) = places.get(*at) else { return false };
            said[place + 1] = answer("an answer that nobody gave");
            said.push(user("ok"));
        }
        Deed::Begin => *said = vec![user("hi")],
    }
    !new_messages(said).is_empty()
}

#[test]
fn blocks_that_clients_add_are_no_part_of_a_text() {
    let table = [
        ("<think>a</think>b<think>c</think> d", "b d"),
        ("a<details open>x</details>b", "a b"),
        ("<think>a", "<think>a"),
        ("a</think><think>b</think>", "a</think>"),
        ("<think><details></think>a</details>", "a</details>"),
    ];
    for (text, bare) in table {
        assert_eq!(normal(text), bare, "{text}");
    }
    assert_eq!(normal(&"<think></think>".repeat(70_000)), "");
}

fn asks(said: &[Said], open: &[&str], answered: &[&str]) -> Option<bool> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    asks_first(said, &owned(open), &owned(answered))
}

#[test]
fn what_was_shown_last_is_all_that_stands_before_the_news() {
    let asked = [user("q"), answer("<think>Hm.</think>Sure?  Say so."), answer("more"), user("yes")];
    assert_eq!(asks(&asked, &["Sure? Say"], &[]), Some(true));
    assert_eq!(asks(&asked, &["Hm."], &[]), Some(false));
    assert_eq!(
        asks(&[user("q"), answer("Sure?"), user("why"), answer("so"), user("yes")], &["Sure?"], &[]),
        Some(false)
    );
    assert_eq!(asks(&[user("yes")], &["Sure?"], &[]), None);
}

#[test]
fn a_text_is_for_the_first_of_the_questions_that_were_shown() {
    let shows = |text| [user("q"), answer(text), user("yes")];
    assert_eq!(asks(&shows("So: A? B?"), &["A?", "B?"], &[]), Some(true));
    assert_eq!(asks(&shows("So: A? B?"), &["B?"], &["A?"]), Some(false), "it was for the other");
    assert_eq!(asks(&shows("B?"), &["B?"], &["A?"]), Some(true), "it was put again");
    assert_eq!(asks(&shows("So: A? A?"), &["A?", "A?"], &[]), Some(true));
    assert_eq!(asks(&shows("So: A? A?"), &["A?"], &["A?"]), Some(false), "they read the same");
    assert_eq!(asks(&shows("A?"), &["A?"], &["A?"]), Some(true));
    assert_eq!(asks(&shows("A? No, B, A?"), &["No, B, A?"], &["A?", "B"]), Some(false));
    assert_eq!(
        asks(&shows("No, B, A?"), &["No, B, A?"], &["A?", "B"]),
        Some(true),
        "within its own words they are none"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Three people whose client sends their names, and two who share a key, all using the same few texts.
    #[test]
    fn the_model_is_shown_what_the_client_sent_and_no_thread_is_two_users(deeds in prop::collection::vec(deed(), 1..40)) {
        let mut server = Server::default();
        let mut clients: Vec<Vec<Said>> = vec![Vec::new(); 5];
        for (who, deed, words) in &deeds {
            let said = &mut clients[*who];
            if !act(said, deed) {
                continue;
            }
            let by = Some(*who).filter(|who| *who < 3);
            let (text, shown) = server.serve(by, said, *words);
            prop_assert_eq!(plain(&shown), plain(said));
            // A client decorates the answer.
            said.push(answer(&format!("<think>why</think>\n{text}  ")));
        }
        for thread in &server.threads {
            prop_assert!(thread.users.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", thread.users);
        }
    }
}
