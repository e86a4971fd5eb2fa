//! Subscribers at a process that does not own the thread.

use pes::domain::ids::RunId;
use pes::domain::observation::ObservationType;
use pes::domain::run::RunStatus;
use pes::live::EncodedKind;
use pes::service::feed::{self, After, Feed, FeedAsk};
use pes::service::runs;
use pes::service::threads::{self, NewThreadAsk};

use super::probe::{Probe, ask, asked};
use super::replicas::{LONG, replica, said};
use crate::support::http::soon;
use crate::support::postgres::Database;

/// A `run` frame, and the seq of the last observation before it.
type HeardRun = (RunId, RunStatus, i64);

/// Listens until it has heard each of these; all `run` frames up to then.
async fn hears(feed: &mut Feed, expected: &[(&RunId, RunStatus)]) -> Vec<HeardRun> {
    let (mut heard, mut last_seq) = (Vec::<HeardRun>::new(), 0);
    let is_heard = |heard: &[HeardRun], (run, status): &(&RunId, RunStatus)| {
        heard.iter().any(|(heard, stands, _)| heard == *run && stands == status)
    };
    while !expected.iter().all(|expected| is_heard(&heard, expected)) {
        let frame = soon(feed.next()).await.expect("it goes on");
        if let EncodedKind::Observation { seq, .. } = &frame.kind {
            last_seq = *seq;
        }
        if let EncodedKind::Run { run_id, status, .. } = &frame.kind {
            heard.push((run_id.clone(), *status, last_seq));
        }
    }
    heard
}

#[tokio::test]
async fn who_listens_elsewhere_hears_how_each_run_stands() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let first = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let second = ask(&owner, "t", "ask").await;
    let mut feeds = Vec::new();
    for until in [None, Some(second.clone())] {
        let listen = FeedAsk { after: After::Latest, until, ..FeedAsk::default() };
        let mut feed = feed::open(other.service(), other.caller(), &"t".into(), listen).await.unwrap();
        while soon(feed.next()).await.unwrap().kind != EncodedKind::CaughtUp {}
        feeds.push(feed);
    }
    runs::cancel(owner.service(), owner.caller(), &first, None).await.unwrap();
    let (question, asked_at) = asked(&owner, "t", 0).await;
    for feed in &mut feeds {
        let heard = hears(feed, &[(&first, RunStatus::Cancelled), (&second, RunStatus::Suspended)]).await;
        let suspended: Vec<&HeardRun> = heard.iter().filter(|(_, status, _)| *status == RunStatus::Suspended).collect();
        let [(run, _, seq)] = suspended[..] else { panic!("{heard:?}") };
        assert!(*run == second && *seq >= asked_at, "it comes after the question, which is {asked_at}: {heard:?}");
    }
    runs::resume(owner.service(), owner.caller(), &"t".into(), said(&question, "well"), None).await.unwrap();
    for feed in &mut feeds {
        let heard = hears(feed, &[(&second, RunStatus::Completed)]).await;
        assert!(heard.iter().all(|(_, status, _)| *status != RunStatus::Suspended), "it was heard before: {heard:?}");
    }
}

/// The process that listens goes on with the run itself: the frames of its own commits follow one that it made from the store.
#[tokio::test]
async fn who_listens_hears_of_the_second_suspension_where_the_first_was_answered() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let thread = NewThreadAsk { thread_id: Some("t".into()), ..NewThreadAsk::default() };
    threads::create(owner.service(), owner.caller(), thread, None).await.unwrap();
    let listen = FeedAsk { after: After::Latest, ..FeedAsk::default() };
    let mut feed = feed::open(other.service(), other.caller(), &"t".into(), listen).await.unwrap();
    while soon(feed.next()).await.unwrap().kind != EncodedKind::CaughtUp {}
    let run = ask(&owner, "t", "twice").await;
    let (mut stands, mut last_seq, mut asked_at) = (None, 0, 0);
    for answer in ["well", "really"] {
        let (question, seq) = asked(&other, "t", asked_at).await;
        asked_at = seq;
        while last_seq < asked_at || stands != Some(RunStatus::Suspended) {
            let frame = soon(feed.next()).await.expect("it goes on");
            if let EncodedKind::Observation { seq, .. } = &frame.kind {
                last_seq = *seq;
            }
            if let EncodedKind::Run { run_id, status, .. } = &frame.kind
                && *run_id == run
            {
                stands = Some(*status);
            }
        }
        runs::resume(other.service(), other.caller(), &"t".into(), said(&question, answer), None).await.unwrap();
    }
    hears(&mut feed, &[(&run, RunStatus::Completed)]).await;
}

#[tokio::test]
async fn who_listens_elsewhere_for_one_type_only_hears_how_each_run_stands() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let first = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let types = vec![ObservationType::Synthesis];
    let listen = FeedAsk { after: After::Latest, types, ..FeedAsk::default() };
    let mut feed = feed::open(other.service(), other.caller(), &"t".into(), listen).await.unwrap();
    while soon(feed.next()).await.unwrap().kind != EncodedKind::CaughtUp {}
    let second = ask(&owner, "t", "ask").await;
    runs::cancel(owner.service(), owner.caller(), &first, None).await.unwrap();
    let heard = hears(&mut feed, &[(&first, RunStatus::Cancelled), (&second, RunStatus::Suspended)]).await;
    assert!(heard.iter().all(|(_, _, last_seq)| *last_seq == 0), "no observation was of its type: {heard:?}");
}
