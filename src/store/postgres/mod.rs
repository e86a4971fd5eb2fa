//! PostgreSQL: any number of processes on one database.
//!
//! Two writers take the committer's batches; a thread always uses the same one. The reads of the engine and those that
//! people cause use two pools. The renewal of this process's lease has a connection of its own, and so has the health check.
//! Whether a replica is alive is decided by the database's clock.

mod address;
mod audit;
mod backup;
mod batch;
mod batch_shared_sql;
mod batch_sql;
mod chain;
mod columns;
mod documents;
mod erasure;
mod fault;
mod figures;
mod idempotency;
mod keys;
mod leases;
mod log;
mod lookups;
mod nul;
mod open;
mod outbox;
mod pool;
mod retention;
mod rows;
mod schedules;
mod sealed;
mod sessions;
mod spend;
mod threads;
mod transfer;
mod usage;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use sqlx::postgres::PgConnectOptions;

use super::committer::{Bounds, Committer};
use super::{Chores, OldSchema, Result, Store, Traffic};
use crate::domain::ids::ThreadPk;
use pool::Pool;
use writer::{CONNECT_TIMEOUT, Writer};

/// While one waits for its commit to be flushed, the other writes. A third would only compete for the processor.
const WRITERS: u32 = 2;
/// How long a health check waits for a connection: readiness waits 2 s for the check, and then would not hear why it failed.
const HEALTH_PATIENCE: Duration = Duration::from_millis(1500);
/// Shorter than that of others: within its patience a pool pauses between two attempts to connect for up to a fifth of
/// it, and the lease must be renewed soon after PostgreSQL is back.
const LEASE_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Postgres {
    location: String,
    weakness: Option<String>,
    pool: Pool,
    /// The pool for the reads that people cause. `None`: this handle is the one for them.
    for_people: Option<Pool>,
    /// The pool that renews the lease, which must not wait for other queries.
    lease: Pool,
    /// For health checks, which wait for each other.
    health: Pool,
    committer: Arc<Committer>,
    chores: Arc<Chores>,
}

impl Postgres {
    /// Returns once the database accepts a connection. Waits this long for a server that cannot be reached or still starts;
    /// any other error is returned at once. Both are `Unusable`.
    pub async fn await_connection(url: &SecretString, patience: Duration) -> Result<()> {
        open::await_connection(&address::options(url)?, patience).await
    }

    /// Migrates first. Fails with `Unusable` when the database cannot be reached, or was migrated by a newer program.
    pub async fn open(url: &SecretString, connections: u32) -> Result<Self> {
        let options = address::options(url)?;
        open::migrate(&options).await?;
        Self::opened(&options, open::session(&options), connections).await
    }

    /// Opens the database for reading, also beside servers, as a role that may only SELECT. Nothing can be written.
    /// `Unusable` if it cannot be reached, or if it is of another version of pes.
    pub async fn open_beside(url: &SecretString, connections: u32) -> Result<Self> {
        let options = address::options(url)?;
        open::check_up_to_date(&options).await?;
        Self::opened(&options, open::reading_session(&options), connections).await
    }

    /// The schema of a database that `open` would migrate; this changes nothing. `Unusable` if it cannot be reached, or was
    /// migrated by a newer program.
    pub async fn old_schema(url: &SecretString) -> Result<Option<OldSchema>> {
        open::old_schema(&address::options(url)?).await
    }

    /// That a server with these `store.connections` may open more than the database allows; `None`: it may not.
    pub async fn too_few_connections(url: &SecretString, connections: u32) -> Result<Option<String>> {
        let server = open::server(&open::session(&address::options(url)?)).await?;
        Ok(server.too_few_for(all_connections(connections)))
    }

    /// `Unusable` if this database has no tables of pes, or cannot be reached.
    pub async fn check_exists(url: &SecretString) -> Result<()> {
        open::check_exists(&address::options(url)?).await
    }

    async fn opened(options: &PgConnectOptions, session: PgConnectOptions, connections: u32) -> Result<Self> {
        let server = open::server(&session).await?;
        let checked = open::with_client_check(&session, &server);
        let half = connections.div_ceil(2);
        if let Some(few) = server.too_few_for(all_connections(connections)) {
            tracing::warn!("{few}");
        }
        let writers = (0..WRITERS).map(|_| Writer::new(session.clone()));
        Ok(Self {
            location: address::location(options),
            weakness: server.weakness,
            pool: Pool::lazy(checked.clone(), half, CONNECT_TIMEOUT),
            for_people: Some(Pool::lazy(checked.clone(), half, CONNECT_TIMEOUT)),
            lease: Pool::lazy(checked.clone(), 1, LEASE_PATIENCE),
            health: Pool::lazy(checked, 1, HEALTH_PATIENCE),
            committer: Arc::new(Committer::spawn(writers, Bounds::default())),
            chores: Arc::new(Chores::beside_commits()),
        })
    }
}

/// All connections of a process: two pools of the same size, the writers, and one each for the lease and health checks. A
/// writer that waits long for an answer opens another for a moment.
fn all_connections(connections: u32) -> u32 {
    connections.div_ceil(2) * 2 + WRITERS + 2
}

const PING: &str = "
INSERT INTO pulse (id, beats, ballast) VALUES (1, 1, convert_to(repeat('.', $1), 'UTF8'))
ON CONFLICT (id) DO UPDATE SET beats = pulse.beats + 1, ballast = excluded.ballast";

#[async_trait]
impl Store for Postgres {
    fn describe(&self) -> String {
        format!("postgres at {}", self.location)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn weakness(&self) -> Option<String> {
        self.weakness.clone()
    }

    fn for_people(&self) -> Option<Arc<dyn Store>> {
        let pool = self.for_people.clone()?;
        Some(Arc::new(Self { pool, for_people: None, ..self.clone() }))
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
        let ballast = i32::try_from(proof).unwrap_or(i32::MAX);
        self.health.execute(sqlx::query(PING).bind(ballast)).await?;
        health.record_success(proof);
        Ok(())
    }

    async fn close(&self) {
        self.committer.close().await;
        self.pool.close().await;
        if let Some(for_people) = &self.for_people {
            for_people.close().await;
        }
        self.health.close().await;
        self.lease.close().await;
    }
}

/// The keys of threads as one parameter of a statement.
fn keys_of(pks: &[ThreadPk]) -> Vec<i64> {
    pks.iter().map(|pk| pk.0).collect()
}
