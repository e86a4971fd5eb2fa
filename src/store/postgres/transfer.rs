//! Import of a whole thread.

use async_trait::async_trait;
use sqlx::{Connection as _, PgConnection, Row as _};

use super::Postgres;
use super::batch::{self, outcome};
use super::fault::{Failure, error, failure};
use crate::store::committer::{PreparedCommit, Sending};
use crate::store::log::NewEntry;
use crate::store::{Committed, NewImport, Result, TransferStore};

const LOG: &str = "
INSERT INTO observations (pk, seq, types, body, compressed)
SELECT $1, unnest($2::bigint[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bytea[])";

const BOUNDS: &str = "UPDATE threads SET min_seq = $2, last_seq = $3 WHERE pk = $1";

const BASE: &str = "INSERT INTO bases (pk, seq, body) VALUES ($1, $2, $3)";

#[async_trait]
impl TransferStore for Postgres {
    async fn import_thread(&self, import: NewImport) -> Result<Committed> {
        let NewImport { commit, log, min_seq, last_seq, base } = import;
        let prepared = [self.committer.prepared(commit)];
        let log = self.committer.formatted(log).await?;
        self.pool
            .with_connection(async |connection| {
                store(connection, &prepared, &log, (min_seq, last_seq), base.as_deref()).await
            })
            .await
    }
}

async fn store(
    connection: &mut PgConnection,
    prepared: &[PreparedCommit; 1],
    log: &[NewEntry],
    (min_seq, last_seq): (i64, i64),
    base: Option<&str>,
) -> Result<Committed> {
    let pk = prepared[0].commit.pk.0;
    let mut transaction = connection.begin().await.map_err(error)?;
    let written = batch::write(prepared, Sending::First).fetch_all(&mut *transaction).await;
    let verdicts = match written {
        // Another transaction took the id in the meantime; the repeated statement sees it.
        Err(raced) if failure(&raced) == Failure::Raced => {
            transaction.rollback().await.map_err(error)?;
            transaction = connection.begin().await.map_err(error)?;
            batch::write(prepared, Sending::First).fetch_all(&mut *transaction).await.map_err(error)?
        }
        written => written.map_err(error)?,
    };
    let outcome = outcome(verdicts.iter().map(|row| row.get::<i32, _>(1)).max());
    if outcome != Committed::Done {
        return Ok(outcome);
    }
    let seqs: Vec<i64> = log.iter().map(|entry| entry.seq).collect();
    let types: Vec<&str> = log.iter().map(|entry| entry.types.as_str()).collect();
    let bodies: Vec<&str> = log.iter().map(|entry| entry.body.as_str()).collect();
    let compressed: Vec<Option<&[u8]>> = log.iter().map(|entry| entry.compressed.as_deref()).collect();
    let entries = sqlx::query(LOG).bind(pk).bind(seqs).bind(types).bind(bodies).bind(compressed);
    entries.execute(&mut *transaction).await.map_err(error)?;
    let bounds = sqlx::query(BOUNDS).bind(pk).bind(min_seq).bind(last_seq);
    bounds.execute(&mut *transaction).await.map_err(error)?;
    if let Some(base) = base {
        let base = sqlx::query(BASE).bind(pk).bind(min_seq - 1).bind(base);
        base.execute(&mut *transaction).await.map_err(error)?;
    }
    transaction.commit().await.map_err(error)?;
    Ok(outcome)
}
