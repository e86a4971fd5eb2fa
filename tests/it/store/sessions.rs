//! Browser sessions.

use pes::store::SessionRow;

use super::bed::Bed;

super::on_every_store!(a_session_is_there_until_it_is_ended, sessions_that_are_over_are_forgotten_a_few_at_a_time);

fn session(hash: &str, expires_at: i64) -> SessionRow {
    SessionRow { hash: hash.to_owned(), key_hash: "hash of a key".to_owned(), person: None, expires_at }
}

async fn a_session_is_there_until_it_is_ended(bed: Bed) {
    bed.store.add_session(session("s1", 10)).await.unwrap();
    let person = Some(r#"{"name":"https://a.example#\u0000ä"}"#.to_owned());
    let of_person = SessionRow { person, key_hash: String::new(), ..session("s2", 10) };
    bed.store.add_session(of_person.clone()).await.unwrap();
    assert_eq!(bed.store.session("s1").await.unwrap(), Some(session("s1", 10)));
    bed.store.end_session("s1").await.unwrap();
    bed.store.end_session("s1").await.unwrap();
    assert_eq!(bed.store.session("s1").await.unwrap(), None);
    assert_eq!(bed.store.session("s2").await.unwrap(), Some(of_person));
}

async fn sessions_that_are_over_are_forgotten_a_few_at_a_time(bed: Bed) {
    for (hash, expires_at) in [("s1", 1), ("s2", 2), ("s3", 3), ("s4", 9)] {
        bed.store.add_session(session(hash, expires_at)).await.unwrap();
    }
    assert_eq!(bed.store.forget_sessions(9, 2).await.unwrap(), 2);
    assert_eq!(bed.store.session("s2").await.unwrap(), None);
    assert!(bed.store.session("s3").await.unwrap().is_some(), "the oldest go first");
    assert_eq!(bed.store.forget_sessions(9, 2).await.unwrap(), 1);
    assert!(bed.store.session("s4").await.unwrap().is_some());
}
