//! The one connection that writes, shared by the committer and the few other writes.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteQueryResult, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use tokio::sync::Mutex;

use super::batch::{self, DONE, DUPLICATE, EXISTS, LANDED, STALE};
use super::batch_sql;
use super::fault::{Failure, failure, unavailable, unwritten};
use super::lock::FolderLock;
use crate::store::committer::{Batch, BatchError, PreparedCommit, Sending};
use crate::store::{Committed, Result};

pub(super) type Script = Query<'static, Sqlite, SqliteArguments>;

/// Writes go one after another, in the order in which they came.
#[derive(Clone)]
pub(super) struct Writer(Arc<Mutex<WriteConnection>>);

struct WriteConnection {
    options: SqliteConnectOptions,
    /// `None` after a failure that leaves its state in doubt; opened again by the next write.
    connection: Option<SqliteConnection>,
    /// As long as anything may still be written.
    _lock: FolderLock,
}

impl Writer {
    pub async fn open(options: SqliteConnectOptions, lock: FolderLock) -> std::result::Result<Self, sqlx::Error> {
        let mut connection_slot = WriteConnection { options, connection: None, _lock: lock };
        connection_slot.connection().await?;
        Ok(Self(Arc::new(Mutex::new(connection_slot))))
    }

    /// Runs a script that begins and commits its own transaction, to its end even if the caller walks away.
    pub async fn write(&self, script: Script) -> Result<Vec<SqliteRow>> {
        let connection_slot = self.0.clone().lock_owned();
        let written = tokio::spawn(async move { connection_slot.await.run(script).await });
        written.await.map_err(unavailable)?.map_err(unwritten)
    }

    pub async fn close(&self) {
        self.0.lock().await.leave().await;
    }
}

impl WriteConnection {
    async fn connection(&mut self) -> std::result::Result<&mut SqliteConnection, sqlx::Error> {
        if self.connection.is_none() {
            let mut connection = self.options.connect().await?;
            connection.execute(AssertSqlSafe(batch_sql::prepared())).await?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("just opened"))
    }

    /// After an error no transaction is open.
    async fn run(&mut self, script: Script) -> std::result::Result<Vec<SqliteRow>, sqlx::Error> {
        let connection = self.connection().await?;
        let result = script.fetch_all(&mut *connection).await;
        if let Err(error) = &result
            && (!is_rolled_back(connection.execute("ROLLBACK").await) || failure(error) == Failure::Lost)
        {
            self.leave().await;
        }
        result
    }

    /// Gives up the connection; SQLite rolls back what it left open.
    async fn leave(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }
}

impl Batch for Writer {
    async fn apply(
        &mut self,
        prepared_commits: &[PreparedCommit],
        sending: Sending,
    ) -> std::result::Result<Vec<Committed>, BatchError> {
        let script = batch::script(prepared_commits, sending);
        let refused = self.0.lock().await.run(script).await.map_err(|error| match failure(&error) {
            Failure::Data => BatchError::Data(error.to_string()),
            Failure::Lost => BatchError::Lost(error.to_string()),
            Failure::Unavailable => BatchError::Unavailable(error.to_string()),
        })?;
        let refused: HashMap<i64, i64> = refused.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(prepared_commits
            .iter()
            .map(|prepared| verdict(refused.get(&prepared.commit.pk.0).copied().unwrap_or(DONE)))
            .collect())
    }

    async fn reset(&mut self) {
        self.0.lock().await.leave().await;
    }

    async fn close(self) {
        Writer::close(&self).await;
    }
}

/// Also where there was nothing to roll back: a statement that is a transaction by itself undoes itself.
fn is_rolled_back(answer: std::result::Result<SqliteQueryResult, sqlx::Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => failure(&error) == Failure::Data,
    }
}

fn verdict(code: i64) -> Committed {
    match code {
        DONE | LANDED => Committed::Done,
        DUPLICATE => Committed::Duplicate,
        EXISTS => Committed::Exists,
        STALE => Committed::Stale,
        unknown => unreachable!("the script knows five verdicts, not {unknown}"),
    }
}
