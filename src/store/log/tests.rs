//! A page of a log is read in several queries, between which the log may be shortened.

use serde_json::json;

use super::*;

/// An entry of one observation, as it is read while the log begins at `min_seq`.
fn entry(seq: i64, min_seq: i64) -> Entry {
    let seen = Observation {
        seq,
        id: format!("obs_{seq}").into(),
        thread_id: "t".into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: 1,
        kind: ObservationType::Title,
        title: String::new(),
        content: json!({ "title": "t" }),
        metadata: None,
    };
    let body = Some(NewEntry::of_observations(vec![seen]).unwrap().body);
    Entry { thread: "t".into(), min_seq, seq, body }
}

/// The numbers of the first 200 observations of a log up to `last` that is shortened to `min_seq` after the first query.
async fn read(last: i64, min_seq: i64) -> Result<Vec<i64>> {
    let entries = move |after: i64, limit: i64| async move {
        let min_seq = if after == 0 { 1 } else { min_seq };
        let found = (min_seq.max(after + 1)..=last).take(limit as usize).map(|seq| entry(seq, min_seq));
        Ok::<Vec<Entry>, Error>(found.collect())
    };
    let ask = ObservationAsk { limit: 200, ..ObservationAsk::default() };
    let found = observations(&ask, entries, || async move { Ok(Some(min_seq)) }).await?;
    Ok(found.iter().map(|seen| seen.seq).collect())
}

#[tokio::test]
async fn a_page_of_a_log_that_is_shortened_meanwhile_has_no_gap() {
    for min_seq in [1, PAGE + 1] {
        assert_eq!(read(400, min_seq).await.unwrap(), (1..=200).collect::<Vec<_>>());
        assert_eq!(read(PAGE, min_seq).await.unwrap(), (1..=PAGE).collect::<Vec<_>>(), "that was all");
    }
    // Also if nothing is left of the log.
    for min_seq in [PAGE + 2, 401] {
        let Err(Error::Unavailable(why)) = read(400, min_seq).await else { panic!("there is a gap before {min_seq}") };
        assert_eq!(why, SHORTENED);
    }
}

/// What is stored with a letter cannot be found by another one.
#[test]
fn the_letters_of_types_do_not_change() {
    let letters: String = ObservationType::ALL.iter().map(|&kind| entry::letter(kind)).collect();
    assert_eq!(letters, "abcdefghijklmnopqrstuv");
    assert_eq!(entry::letter(ObservationType::RunStarted), 'a', "statements name it");
    assert!(ObservationType::ALL.iter().all(|kind| !kind.as_str().contains(|letter: char| letter.is_lowercase())));
}
