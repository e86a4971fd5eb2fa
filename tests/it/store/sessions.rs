//! Browser sessions.

use pes::domain::ids::ThreadPk;
use pes::store::{AuditRow, PageAsk, SessionRow};
use serde_json::json;

use super::bed::Bed;

super::on_every_store!(
    a_session_is_there_until_it_is_ended,
    the_sessions_of_people_are_found_by_a_text_in_pages,
    the_sessions_of_one_holder_end_together,
    a_holder_has_so_many_sessions_and_those_that_end_first_go,
    sessions_that_are_over_are_forgotten_a_few_at_a_time
);

fn session(hash: &str, expires_at: i64) -> SessionRow {
    SessionRow { hash: hash.to_owned(), key_hash: "hash of a key".to_owned(), person: None, expires_at }
}

async fn a_session_is_there_until_it_is_ended(bed: Bed) {
    bed.store.add_session(session("s1", 10), 9).await.unwrap();
    let person = Some(r#"{"name":"https://a.example#\u0000ä"}"#.to_owned());
    let of_person = SessionRow { person, key_hash: String::new(), ..session("s2", 10) };
    bed.store.add_session(of_person.clone(), 9).await.unwrap();
    assert_eq!(bed.store.session("s1").await.unwrap(), Some(session("s1", 10)));
    bed.store.end_session("s1").await.unwrap();
    bed.store.end_session("s1").await.unwrap();
    assert_eq!(bed.store.session("s1").await.unwrap(), None);
    assert_eq!(bed.store.session("s2").await.unwrap(), Some(of_person));
}

async fn the_sessions_of_people_are_found_by_a_text_in_pages(bed: Bed) {
    let of = |hash: &str, key_hash: &str, person: &str, expires_at: i64| SessionRow {
        key_hash: key_hash.to_owned(),
        person: Some(person.to_owned()),
        ..session(hash, expires_at)
    };
    let (ann, bob, eve) = (r#"{"tenant":"one\u0000%"}"#, r#"{"tenant":"one\u0000%","b":"_"}"#, r#"{"tenant":"one"}"#);
    let found = [of("s3", "ann", ann, 20), of("s5", "ann", ann, 11), of("s1", "bob", bob, 12)];
    for row in
        [&found[2], &found[1], &of("s2", "bob", bob, 10), &of("s4", "eve", eve, 20), &session("s6", 20), &found[0]]
    {
        bed.store.add_session(row.clone(), 9).await.unwrap();
    }
    let mut ask = PageAsk { cursor: None, limit: 2 };
    let page = async |ask: &PageAsk| bed.store.sessions_of_people(r#""tenant":"one\u0000%""#, 10, ask).await.unwrap();
    let first = page(&ask).await;
    assert_eq!(first.items, found[..2]);
    ask.cursor = first.next_cursor;
    let second = page(&ask).await;
    assert_eq!((second.items.as_slice(), second.next_cursor), (&found[2..], None));
}

async fn the_sessions_of_one_holder_end_together(bed: Bed) {
    let tenant = bed.store.tenant("one", 0).await.unwrap();
    let line = |name: &str| AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: 1,
        actor: "boss".to_owned(),
        action: "end sessions".to_owned(),
        detail: json!({ "name": name }),
    };
    let of = |hash: &str, key_hash: &str| SessionRow { key_hash: key_hash.to_owned(), ..session(hash, 10) };
    for row in [of("s1", "eve"), of("s2", "bob"), of("s3", "eve")] {
        bed.store.add_session(row, 9).await.unwrap();
    }
    assert_eq!(bed.store.end_sessions("nobody", line("nobody")).await.unwrap(), 0);
    assert_eq!(bed.store.end_sessions("eve", line("eve")).await.unwrap(), 2);
    for (hash, is_there) in [("s1", false), ("s2", true), ("s3", false)] {
        assert_eq!(bed.store.session(hash).await.unwrap().is_some(), is_there, "{hash}");
    }
    let audit = bed.store.audit_of_tenant(tenant, &PageAsk { cursor: None, limit: 10 }).await.unwrap().items;
    assert_eq!(audit, [line("eve")], "what ended nothing is not recorded");
}

async fn a_holder_has_so_many_sessions_and_those_that_end_first_go(bed: Bed) {
    let other = SessionRow { key_hash: "another".to_owned(), ..session("other", 1) };
    bed.store.add_session(other, 2).await.unwrap();
    // The new one stays although it ends first.
    for (hash, expires_at) in [("s1", 11), ("s2", 13), ("s3", 12), ("s4", 5)] {
        bed.store.add_session(session(hash, expires_at), 2).await.unwrap();
    }
    for (hash, is_there) in [("s1", false), ("s2", true), ("s3", false), ("s4", true), ("other", true)] {
        assert_eq!(bed.store.session(hash).await.unwrap().is_some(), is_there, "{hash}");
    }
}

async fn sessions_that_are_over_are_forgotten_a_few_at_a_time(bed: Bed) {
    for (hash, expires_at) in [("s1", 1), ("s2", 2), ("s3", 3), ("s4", 9)] {
        bed.store.add_session(session(hash, expires_at), 9).await.unwrap();
    }
    assert_eq!(bed.store.forget_sessions(9, 2).await.unwrap(), 2);
    assert_eq!(bed.store.session("s2").await.unwrap(), None);
    assert!(bed.store.session("s3").await.unwrap().is_some(), "the oldest go first");
    assert_eq!(bed.store.forget_sessions(9, 2).await.unwrap(), 1);
    assert!(bed.store.session("s4").await.unwrap().is_some());
}
