//! The embedded store: one file, one process.
//!
//! WAL; one connection writes (rusqlite, on a thread of its own), a few read for the engine (sqlx), and a few others for
//! people. With `synchronous=FULL` a commit is on the disk before it is answered.

mod audit;
mod backup;
mod batch;
mod chain;
mod columns;
mod damage;
mod documents;
mod erasure;
mod fault;
mod figures;
mod idempotency;
mod keys;
mod leases;
mod lock;
mod log;
mod lookups;
mod open;
mod opened_file;
mod outbox;
mod private;
mod remains;
mod retention;
mod rows;
mod schedules;
mod schema;
mod sealed;
mod sessions;
mod shared_transaction;
mod spend;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod usage;
mod write_connection;
mod writer;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::SqlitePool;
use uuid::Uuid;

use super::committer::Committer;
use super::{Chores, Error, Result, Store, Traffic};
use crate::config::Synchronous;
use crate::domain::ids::ThreadPk;
use writer::Writer;

pub use backup::{DatabaseAction, RestoreMode, back_up, restore};
pub use lock::{Holder, announce, holder, served};
pub use open::database_of;

#[derive(Clone)]
pub struct Sqlite {
    path: PathBuf,
    synchronous: Synchronous,
    /// The database file, for what SQLite itself cannot do. It must not be closed before every connection is: the system
    /// would take away their locks.
    file: Arc<File>,
    committer: Arc<Committer>,
    chores: Arc<Chores>,
    writer: Writer,
    readers: SqlitePool,
    /// The pool for the reads that people cause. `None`: `readers` is the one for them.
    for_people: Option<SqlitePool>,
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

    fn for_people(&self) -> Option<Arc<dyn Store>> {
        let readers = self.for_people.clone()?;
        Some(Arc::new(Self { readers, for_people: None, ..self.clone() }))
    }

    fn traffic(&self) -> Traffic {
        self.committer.traffic()
    }

    fn chores(&self) -> &Chores {
        &self.chores
    }

    /// A full disk may still accept a few bytes, so this writes at least as much as a commit that failed.
    async fn ping(&self) -> Result<()> {
        let health = self.committer.health();
        health.check()?;
        let proof = health.required_proof();
        let ballast = i64::try_from(proof).unwrap_or(i64::MAX);
        self.writer.write(move |tx| tx.prepare_cached(BEAT)?.execute([ballast])).await?;
        health.record_success(proof);
        Ok(())
    }

    async fn close(&self) {
        self.committer.close().await;
        self.writer.close().await;
        self.readers.close().await;
        if let Some(for_people) = &self.for_people {
            for_people.close().await;
        }
    }
}

impl Sqlite {
    /// Makes an error of this store of that of a read, and remembers damage of the file.
    fn unreadable(&self) -> impl Fn(sqlx::Error) -> Error {
        |error| {
            if let Some(damage) = fault::damage_of_read(&error) {
                self.committer.health().record_damage(&damage);
            }
            fault::unreadable(error)
        }
    }
}

/// A UUID as it is stored.
fn stored_id(id: Uuid) -> String {
    id.simple().to_string()
}

/// The keys of threads as one parameter of a statement.
fn keys_of(pks: &[ThreadPk]) -> String {
    Value::from_iter(pks.iter().map(|pk| pk.0)).to_string()
}
