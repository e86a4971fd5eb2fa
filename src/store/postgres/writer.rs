//! A connection that writes batches. It is reopened whenever it is lost.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{ConnectOptions, Connection, Row};
use tokio::time::{Instant, timeout};

use super::batch::{self, outcome};
use super::fault::{Failure, batch_error, failure};
use super::pool::{IDLE_WITHOUT_PING, PING_TIMEOUT, PgQuery, answers_ping};
use super::spend;
use crate::store::Committed;
use crate::store::committer::{Batch, BatchError, CommitSlice, PreparedCommit, Sending};

/// Longer than the server's statement timeout: no response comes later.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// How long opening a connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a batch is repeated after a conflict with a concurrent transaction. Each repetition sees that transaction's
/// writes.
const MAX_RACES: usize = 8;

pub(super) struct Writer {
    options: PgConnectOptions,
    /// `None` after an error that leaves its state in doubt.
    connection: Option<PgConnection>,
    /// When the last statement ended.
    idle_since: Instant,
    batches: u64,
}

impl Writer {
    pub fn new(options: PgConnectOptions) -> Self {
        Self { options, connection: None, idle_since: Instant::now(), batches: 0 }
    }

    /// Pings a connection that was idle, because it may have been lost without a sign: a commit that is sent over it would
    /// wait for `ANSWER_TIMEOUT`, and its outcome would not be known.
    async fn connection(&mut self) -> Result<&mut PgConnection, BatchError> {
        let unavailable = |error: &dyn std::fmt::Display| BatchError::Unavailable(error.to_string());
        if let Some(connection) = &mut self.connection
            && self.idle_since.elapsed() >= IDLE_WITHOUT_PING
            && !answers_ping(connection, PING_TIMEOUT).await
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let opened = timeout(CONNECT_TIMEOUT, self.options.connect()).await.map_err(|late| unavailable(&late))?;
            self.connection = Some(opened.map_err(|error| unavailable(&error))?);
        }
        Ok(self.connection.as_mut().expect("just opened"))
    }

    async fn run(&mut self, statement: impl Fn() -> PgQuery<'static>) -> Result<Vec<PgRow>, BatchError> {
        let mut races = 0;
        loop {
            let answer = timeout(ANSWER_TIMEOUT, statement().fetch_all(self.connection().await?)).await;
            self.idle_since = Instant::now();
            let error = match answer {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) => error,
                Err(late) => {
                    self.connection = None;
                    return Err(BatchError::Lost(late.to_string()));
                }
            };
            match failure(&error) {
                Failure::Raced if races < MAX_RACES => races += 1,
                Failure::Raced | Failure::Data => return Err(batch_error(&error)),
                Failure::Unavailable | Failure::Lost => {
                    self.connection = None;
                    return Err(batch_error(&error));
                }
            }
        }
    }

    /// Discards the connection's plans whenever the number of batches has doubled: a plan that suits an empty table is wrong
    /// for a large one.
    async fn refresh_plans(&mut self) -> Result<(), BatchError> {
        self.batches += 1;
        if self.batches.is_power_of_two() {
            self.run(|| sqlx::query("DISCARD PLANS")).await?;
        }
        Ok(())
    }

    /// Marks the commits as done that an earlier sending of the same batch has stored.
    async fn mark_stored_before(
        &mut self,
        prepared_commits: &[PreparedCommit],
        outcomes: &mut [Committed],
    ) -> Result<(), BatchError> {
        let refused: Vec<&PreparedCommit> = prepared_commits
            .iter()
            .zip(outcomes.iter())
            .filter(|(_, outcome)| **outcome != Committed::Done)
            .map(|(prepared, _)| prepared)
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let landed = self.run(|| batch::landed(&refused)).await?;
        let landed: Vec<i64> = landed.iter().map(|row| row.get(0)).collect();
        for (prepared, outcome) in prepared_commits.iter().zip(outcomes) {
            if landed.contains(&prepared.commit.pk.0) {
                *outcome = Committed::Done;
            }
        }
        Ok(())
    }
}

impl Batch for Writer {
    async fn apply(&mut self, commits: CommitSlice, sending: Sending) -> Result<Vec<Committed>, BatchError> {
        let prepared_commits = &commits[..];
        self.refresh_plans().await?;
        let spent = prepared_commits.iter().flat_map(|prepared| &prepared.commit.spend);
        if spent.clone().next().is_some() {
            self.run(|| spend::open(spent.clone())).await?;
        }
        let mut verdicts: HashMap<i64, i32> = HashMap::with_capacity(prepared_commits.len());
        for row in self.run(|| batch::write(prepared_commits, sending)).await? {
            let verdict = verdicts.entry(row.get(0)).or_default();
            *verdict = row.get::<i32, _>(1).max(*verdict);
        }
        let mut outcomes: Vec<Committed> =
            prepared_commits.iter().map(|prepared| outcome(verdicts.get(&prepared.commit.pk.0).copied())).collect();
        if sending == Sending::Again {
            self.mark_stored_before(prepared_commits, &mut outcomes).await?;
        }
        Ok(outcomes)
    }

    async fn reset(&mut self) {
        self.connection = None;
    }

    async fn close(self) {
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::debug!(%error, "the connection was not closed cleanly");
        }
    }
}
