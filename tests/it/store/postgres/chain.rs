//! An audit line that becomes visible late, despite its lower id, is chained after those already seen.

use pes::domain::ids::ThreadPk;
use pes::service::audit::chain;
use pes::service::audit::verify::{VerifyAsk, verify};
use pes::store::Commit;
use sqlx::Executor;
use std::sync::Arc;

use crate::store::bed::Bed;
use crate::support::postgres::Database;
use crate::support::store::store_on;

/// Its id was allotted before that of a line that is already chained.
#[tokio::test]
async fn a_line_that_appears_late_is_chained_behind_those_that_were_seen() {
    let database = Arc::new(Database::fresh().await);
    let store = store_on(&database).await;
    let bed = Bed::on(store, database.clone()).await;
    let pk = bed.thread("t").await;
    let mut late = database.connect().await;
    late.execute("BEGIN").await.unwrap();
    let insert = format!(
        "INSERT INTO audit (pk, tenant, at, actor, action, detail) VALUES (0, {}, 1, 'late', 'resume', '{{}}')",
        bed.tenant.0
    );
    late.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
    let audit = vec![bed.audit_line(pk, "early")];
    bed.done(Commit { audit, ..bed.next(pk).await }).await;
    chain(&*bed.store, None, 1).await.unwrap();
    late.execute("COMMIT").await.unwrap();
    chain(&*bed.store, None, 2).await.unwrap();
    let lines = bed.store.chained_lines(bed.tenant, 0, 10).await.unwrap();
    let told: Vec<_> = lines.iter().map(|line| (line.n, line.line.actor.as_str())).collect();
    assert_eq!(told, [(1, "early"), (2, "late")]);
    assert_eq!(lines[1].line.thread, ThreadPk::NONE);
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM audit ORDER BY n").fetch_all(&mut late).await.unwrap();
    assert!(ids[0] > ids[1], "{ids:?}");
    assert_eq!(verify(&*bed.store, &VerifyAsk::default()).await.unwrap()[0].broken, None);
}
