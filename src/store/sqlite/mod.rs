//! The embedded store: one file, one process.
//!
//! WAL; one connection writes, batch by batch, a few read for the engine, and a few others for people. With `synchronous=FULL` a commit is on the disk before it
//! is answered.

mod audit;
mod batch;
mod batch_sql;
mod columns;
mod damage;
mod documents;
mod fault;
mod figures;
mod idempotency;
mod keys;
mod leases;
mod lock;
mod log;
mod open;
mod outbox;
mod packed_rows;
mod private;
mod rows;
mod schema;
mod sealed;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::SqlitePool;

use super::committer::Committer;
use super::{Result, Store};
use crate::config::Synchronous;
use writer::Writer;

pub use lock::{announce, served};

#[derive(Clone)]
pub struct Sqlite {
    path: PathBuf,
    synchronous: Synchronous,
    committer: Arc<Committer>,
    writer: Writer,
    readers: SqlitePool,
    /// Where people read; `None`: the readers are theirs.
    for_readers: Option<SqlitePool>,
}

const BEAT: &str = "
INSERT INTO pulse (id, beats, ballast) VALUES (1, 1, zeroblob(?1))
ON CONFLICT (id) DO UPDATE SET beats = beats + 1, ballast = excluded.ballast";

#[async_trait]
impl Store for Sqlite {
    fn describe(&self) -> String {
        format!("sqlite {}", self.path.display())
    }

    fn weakness(&self) -> Option<String> {
        match self.synchronous {
            Synchronous::Full => None,
            Synchronous::Normal => {
                Some("store.synchronous is normal: a power failure may lose what was acknowledged last".to_owned())
            }
        }
    }

    fn for_readers(&self) -> Option<Arc<dyn Store>> {
        let readers = self.for_readers.clone()?;
        Some(Arc::new(Self { readers, for_readers: None, ..self.clone() }))
    }

    /// Where the disk is full, a few bytes may still find room: hence as much as a commit that failed.
    async fn ping(&self) -> Result<()> {
        let health = self.committer.health();
        health.check()?;
        let proof = health.proof();
        self.writer.write(sqlx::query(BEAT).bind(i64::try_from(proof).unwrap_or(i64::MAX))).await?;
        health.succeeds(proof);
        Ok(())
    }

    async fn close(&self) {
        self.committer.close().await;
        self.writer.close().await;
        self.readers.close().await;
        if let Some(readers) = &self.for_readers {
            readers.close().await;
        }
    }
}
