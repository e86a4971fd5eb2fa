//! A database of which some files are damaged, while all others can be read and written.

use std::sync::Arc;

use pes::domain::observation::ObservationType;
use pes::store::{Commit, Committed, Error};

use crate::store::bed::{Bed, record};
use crate::support::store::{migrated, store_on};
use crate::support::together;

/// One damaged part of the database must not take all replicas away.
#[tokio::test]
async fn of_commits_that_are_sent_together_only_those_that_meet_damage_fail() {
    let database = Arc::new(migrated().await);
    let bed = Bed::on(store_on(&database).await, database.clone()).await;
    let mut commits = Vec::new();
    for n in 0..16 {
        let pk = bed.thread(&format!("t{n}")).await;
        // A thread always uses the same of two writers, so each gets one that fails.
        let records = if n < 2 { vec![record("o1", ObservationType::Intent, "r")] } else { Vec::new() };
        commits.push(Commit { records, ..bed.next(pk).await });
    }
    database.damage("observations_pkey").await;
    let commit = |commit: Commit| {
        let store = bed.store.clone();
        async move { store.commit(commit).await }
    };
    for (n, answer) in together(commits.into_iter().map(commit)).await.into_iter().enumerate() {
        match answer {
            Err(Error::Unavailable(why)) => assert!(n < 2 && why.contains("invalid page"), "{n}: {why}"),
            other => assert!(n >= 2 && matches!(other, Ok(Committed::Done)), "{n}: {other:?}"),
        }
    }
    bed.store.ping().await.expect("it is well");
}
