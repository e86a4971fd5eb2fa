//! A connection that writes batches. It is reopened whenever it is lost.

use std::collections::HashMap;
use std::pin::pin;
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

/// How long a batch has no answer before the server is asked whether it still works on it, and how long that may take.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an answer may still take that the server has sent.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long opening a connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a batch is repeated after a conflict with a concurrent transaction. Each repetition sees that transaction's
/// writes.
const MAX_RACES: usize = 8;

pub(super) struct Writer {
    options: PgConnectOptions,
    /// `None` after an error that leaves its state in doubt.
    session: Option<Session>,
    /// When the last statement ended.
    idle_since: Instant,
    batches: u64,
    /// Of the current batch.
    sending: Sending,
}

/// An open connection.
struct Session {
    connection: PgConnection,
    /// `None`: the role may not ask for it.
    backend: Option<Backend>,
}

/// The process of a connection in the server.
#[derive(Clone, Copy)]
struct Backend {
    pid: i32,
    /// In microseconds since 1970. After a failover, or later, another process may have the same number.
    started_at: i64,
}

const BACKEND: &str = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint
    FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Ends this backend if it is idle, and waits up to a second for its end. `false`: it works, or has not ended yet. No row:
/// there is none.
const END_IF_IDLE: &str = "SELECT CASE WHEN state = 'idle' THEN pg_terminate_backend(pid, 1000) ELSE false END
    FROM pg_stat_activity WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2";

impl Session {
    async fn open(options: &PgConnectOptions) -> sqlx::Result<Self> {
        let mut connection = options.connect().await?;
        let backend = match sqlx::query_as::<_, (i32, i64)>(BACKEND).fetch_one(&mut connection).await {
            Ok((pid, started_at)) => Some(Backend { pid, started_at }),
            // Roles may be kept from reading what the server does.
            Err(sqlx::Error::Database(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { connection, backend })
    }
}

impl Writer {
    pub fn new(options: PgConnectOptions) -> Self {
        Self { options, session: None, idle_since: Instant::now(), batches: 0, sending: Sending::First }
    }

    /// Pings a connection that was idle, because it may have been lost without a sign: a commit that is sent over it would
    /// wait for `LOOK_INTERVAL`, and its outcome would not be known.
    async fn connect(&mut self) -> Result<(), BatchError> {
        let unavailable = |error: &dyn std::fmt::Display| BatchError::Unavailable(error.to_string());
        if let Some(session) = &mut self.session
            && self.idle_since.elapsed() >= IDLE_WITHOUT_PING
            && !answers_ping(&mut session.connection, PING_TIMEOUT).await
        {
            self.session = None;
        }
        if self.session.is_none() {
            let opened = timeout(CONNECT_TIMEOUT, Session::open(&self.options)).await;
            let opened = opened.map_err(|_| unavailable(&"no connection was opened in time"))?;
            self.session = Some(opened.map_err(|error| unavailable(&error))?);
        }
        Ok(())
    }

    async fn run(&mut self, statement: impl Fn() -> PgQuery<'static>) -> Result<Vec<PgRow>, BatchError> {
        let mut races = 0;
        loop {
            self.connect().await?;
            let Session { connection, backend } = self.session.as_mut().expect("it is connected");
            let asked = timeout(ANSWER_TIMEOUT, statement().fetch_all(connection));
            let answer = match self.sending {
                Sending::First => answer_or_loss(asked, &self.options, *backend).await,
                // The request itself may take long to arrive, and looks like one that was lost until then.
                Sending::Again => match asked.await {
                    Ok(answer) => Some(answer),
                    Err(_) => {
                        end_if_idle(&self.options, *backend).await;
                        None
                    }
                },
            };
            self.idle_since = Instant::now();
            let error = match answer {
                Some(Ok(rows)) => return Ok(rows),
                Some(Err(error)) => error,
                None => {
                    self.session = None;
                    return Err(BatchError::Lost("the database does not answer".to_owned()));
                }
            };
            match failure(&error) {
                Failure::Raced if races < MAX_RACES => races += 1,
                Failure::Raced | Failure::Data | Failure::Damaged => return Err(batch_error(&error)),
                Failure::Unavailable | Failure::Lost => {
                    self.session = None;
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

/// The answer. `None`: there is none in time, or none will come, because the backend was idle, and was ended, or there is
/// none any more. A slow server is waited for: it works on the statement. A request whose backend has ended is not stored
/// later. One whose backend could not be ended, because the server cannot be reached or the role may not, may still arrive.
async fn answer_or_loss<T, E>(
    asked: impl Future<Output = Result<T, E>>,
    options: &PgConnectOptions,
    backend: Option<Backend>,
) -> Option<T> {
    let mut asked = pin!(asked);
    loop {
        match timeout(LOOK_INTERVAL, &mut asked).await {
            Ok(answer) => return answer.ok(),
            Err(_) if end_if_idle(options, backend).await => return timeout(ARRIVAL_TIMEOUT, asked).await.ok()?.ok(),
            Err(_) => {}
        }
    }
}

/// Ends this backend over another connection if it is idle. Whether the server answers that it has ended, or is gone.
async fn end_if_idle(options: &PgConnectOptions, backend: Option<Backend>) -> bool {
    let Some(backend) = backend else { return false };
    let look = async {
        let mut connection = options.connect().await?;
        let ended = sqlx::query_scalar(END_IF_IDLE).bind(backend.pid).bind(backend.started_at);
        let ended: sqlx::Result<Option<bool>> = ended.fetch_optional(&mut connection).await;
        let _ = connection.close().await;
        ended
    };
    matches!(timeout(LOOK_TIMEOUT, look).await, Ok(Ok(None | Some(true))))
}

impl Batch for Writer {
    async fn apply(&mut self, commits: CommitSlice, sending: Sending) -> Result<Vec<Committed>, BatchError> {
        let prepared_commits = &commits[..];
        self.sending = sending;
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
        self.session = None;
    }

    async fn close(self) {
        if let Some(session) = self.session
            && let Err(error) = session.connection.close().await
        {
            tracing::debug!(%error, "the connection was not closed cleanly");
        }
    }
}
