//! The order of audit lines does not depend on how PostgreSQL joins.

use std::sync::Arc;

use pes::store::{AuditRow, Commit};
use serde_json::json;
use sqlx::Executor as _;

use super::process;
use crate::store::bed::Bed;
use crate::support::postgres::Database;
use crate::support::together;

/// Without the other joins the lines of a batch are sorted by their threads, and that sort is not stable.
#[tokio::test]
async fn the_audit_lines_of_a_commit_keep_their_order_however_they_are_joined() {
    const MERGE_JOINS: &str = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET enable_nestloop = off', current_database());
        EXECUTE format('ALTER DATABASE %I SET enable_hashjoin = off', current_database());
    END $$";
    let database = Database::fresh().await;
    database.connect().await.execute(MERGE_JOINS).await.unwrap();
    let bed = Bed::on(Arc::new(process(&database).await), Arc::new(database)).await;
    let mut commits: Vec<Commit> = (0..20).map(|n| bed.creating(&format!("t{n}"))).collect();
    for commit in &mut commits {
        let line = bed.audit_line(commit.pk, "ann");
        commit.audit = (0..20).map(|n| AuditRow { detail: json!({ "nth": n }), ..line.clone() }).collect();
    }
    let expected: Vec<_> = commits.iter().map(|commit| (commit.pk, commit.audit.clone())).collect();
    // They share batches, in this order.
    commits.reverse();
    together(commits.into_iter().map(|commit| {
        let bed = bed.clone();
        async move { bed.done(commit).await }
    }))
    .await;
    for (pk, lines) in expected {
        assert_eq!(bed.audit(pk).await, lines);
    }
}
