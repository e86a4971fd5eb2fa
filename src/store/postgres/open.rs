//! Opening the database: connect, migrate, check its settings. Each failure is one clear line.

use std::io;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row as _};
use tokio::time::{Instant, sleep, timeout};

use super::address::location;
use super::fault;
use super::writer::CONNECT_TIMEOUT;
use crate::store::migrations::{self, KNOWN};
use crate::store::{Error, OldSchema, Result};

/// The current time in the unit of the audit.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The settings of every session. An acknowledged commit is on the disk, and a statement that waited for another transaction
/// sees its writes, whatever the defaults of the database are. By default the timeouts are infinite. A plan is made once per
/// connection, for batches of all sizes. Every statement must find its rows by an index, one by one; so it must plan that
/// way even while the tables are so small that a sequential scan seems cheaper.
const SESSION: [(&str, &str); 9] = [
    ("synchronous_commit", "on"),
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    IDLE_TIMEOUT,
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("random_page_cost", "0.01"),
    ("jit", "off"),
];

/// Ends the transaction of a process that is gone without closing its connection, and releases its locks.
const IDLE_TIMEOUT: (&str, &str) = ("idle_in_transaction_session_timeout", "30s");

pub(super) fn session(options: &PgConnectOptions) -> PgConnectOptions {
    options.clone().options(SESSION)
}

/// How often the server checks whether the client of a statement is still connected. Servers before 14, and those on
/// Windows, cannot check.
const CHECK_INTERVAL: (&str, &str) = ("client_connection_check_interval", "500ms");

/// The session with that check, if the server supports it: it ends the statements of disconnected clients.
pub(super) fn with_client_check(session: &PgConnectOptions, server: &Server) -> PgConnectOptions {
    if server.can_check { session.clone().options([CHECK_INTERVAL]) } else { session.clone() }
}

/// Turns the check on for this connection. `false`: the server cannot check.
async fn turn_on_client_check(connection: &mut PgConnection) -> bool {
    let (name, interval) = CHECK_INTERVAL;
    let set = sqlx::query("SELECT set_config(name, $2, false) FROM pg_settings WHERE name = $1");
    matches!(set.bind(name).bind(interval).fetch_optional(connection).await, Ok(Some(_)))
}

/// The pause before something is retried that another process prevents.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How long a migration waits for a lock, so that others do not queue behind it for long; and how long it tries in all.
const LOCK_TIMEOUT: &str = "2s";
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// What to do about a pooler.
const WITHOUT_POOLER: &str = "Is it a pooler, such as PgBouncer? pes needs connections to PostgreSQL itself";

/// The migrator makes its table if there is none, and the server would say each time that there is one.
const WITHOUT_NOTICES: (&str, &str) = ("client_min_messages", "warning");

/// Migrates the schema; a role that may not change it can use one that is complete. Replicas that start together take
/// turns. Additions of newer versions are kept; if they removed something that this version needs, it refuses to start. If
/// this process is killed meanwhile, the server ends the migration, whose locks keep commits waiting.
pub(super) async fn migrate(options: &PgConnectOptions) -> Result<()> {
    let (place, until) = (location(options), Instant::now() + MIGRATION_TIMEOUT);
    let session = options.clone().options([
        ("lock_timeout", LOCK_TIMEOUT),
        // An index of a large table takes as long as it takes, whatever the timeout of the role is.
        ("statement_timeout", "0"),
        IDLE_TIMEOUT,
        WITHOUT_NOTICES,
    ]);
    let migrator = migrations::migrator(migrations::POSTGRES, NOW);
    loop {
        let mut connection = connect(&session).await?;
        check_session(&mut connection, &place).await?;
        turn_on_client_check(&mut connection).await;
        let migrated = run(&migrator, &mut connection).await;
        // Closing releases the migrator's lock, even after an error.
        let _ = connection.close().await;
        match migrated {
            Ok(least) => return refuse_newer(&place, least),
            Err(error) if is_locked(&error) && Instant::now() < until => {
                tracing::warn!("a migration waits for a lock that another process holds");
                sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(Error::Unusable(refusal(&place, &error))),
        }
    }
}

/// Runs the migrations that are missing, and returns the floor.
async fn run(migrator: &Migrator, connection: &mut PgConnection) -> std::result::Result<i64, MigrateError> {
    if !is_complete(migrator, connection).await? {
        migrator.run_direct(None, connection, false).await?;
    }
    Ok(floor(connection).await?)
}

/// Whether each of our migrations was run, and none failed.
async fn is_complete(migrator: &Migrator, connection: &mut PgConnection) -> sqlx::Result<bool> {
    if !has_migrations(connection).await? {
        return Ok(false);
    }
    let done = sqlx::query_as("SELECT version, checksum, success FROM _sqlx_migrations");
    let done: Vec<(i64, Vec<u8>, bool)> = done.fetch_all(connection).await?;
    let is_done = |version, checksum: &[u8]| done.iter().any(|(done, of, _)| *done == version && of == checksum);
    Ok(done.iter().all(|(_, _, success)| *success)
        && migrator.iter().all(|ours| is_done(ours.version, ours.checksum.as_ref())))
}

/// Refuses a connection whose settings a pooler removed, without which a commit could still happen after its time is over,
/// and one on which nothing can be written. Asked without a prepared statement, which such a pooler may refuse.
async fn check_session(connection: &mut PgConnection, place: &str) -> Result<()> {
    let asked = "SELECT current_setting('lock_timeout'), current_setting('transaction_read_only')::boolean";
    let row = sqlx::raw_sql(asked).fetch_one(connection).await.map_err(fault::error)?;
    let (lock_timeout, is_read_only): (String, bool) = (row.get(0), row.get(1));
    if lock_timeout != LOCK_TIMEOUT {
        return Err(Error::Unusable(format!(
            "the settings of our sessions do not reach the database at {place}. {WITHOUT_POOLER}"
        )));
    }
    if is_read_only {
        return Err(Error::Unusable(format!(
            "the database at {place} takes no writes: it is a standby, or default_transaction_read_only is on. Name the \
             primary with DATABASE_URL"
        )));
    }
    Ok(())
}

/// The lowest schema version that a program must know to use this database.
async fn floor(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT least FROM schema_floor").fetch_one(connection).await
}

/// The schema of a database that a start would migrate. Changes nothing. `Unusable` if it needs a newer program.
pub(super) async fn old_schema(options: &PgConnectOptions) -> Result<Option<OldSchema>> {
    let mut connection = connect(&session(options)).await?;
    let found = schema_and_floor(&mut connection).await;
    let _ = connection.close().await;
    let (found, least) = found.map_err(fault::error)?;
    refuse_newer(&location(options), least)?;
    Ok((found < KNOWN).then_some(OldSchema { found, needed: KNOWN }))
}

/// Refuses a database without tables, and leaves it so.
pub(super) async fn check_exists(options: &PgConnectOptions) -> Result<()> {
    match old_schema(options).await? {
        Some(OldSchema { found: 0, .. }) => Err(Error::Unusable(format!(
            "the database at {} has no tables of pes; name another with DATABASE_URL",
            location(options)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The newest migration of the database, and the lowest schema that a program must know; both are 0 if it has no tables yet.
async fn schema_and_floor(connection: &mut PgConnection) -> sqlx::Result<(i64, i64)> {
    if !has_migrations(connection).await? {
        return Ok((0, 0));
    }
    let newest = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    let newest: Option<i64> = newest.fetch_one(&mut *connection).await?;
    match newest {
        Some(newest) => Ok((newest, floor(connection).await?)),
        None => Ok((0, 0)),
    }
}

async fn has_migrations(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(connection).await
}

/// Refuses a database that is not migrated to the current schema, without changing it.
pub(super) async fn check_up_to_date(options: &PgConnectOptions) -> Result<()> {
    let Some(OldSchema { found, needed }) = old_schema(options).await? else { return Ok(()) };
    Err(Error::Unusable(format!(
        "the database at {} cannot be used: it has schema {found}, and this version of pes needs {needed}; start the \
         server on it once",
        location(options)
    )))
}

/// A session in which nothing can be written.
pub(super) fn reading_session(options: &PgConnectOptions) -> PgConnectOptions {
    session(options).options([("default_transaction_read_only", "on")])
}

fn refuse_newer(place: &str, least: i64) -> Result<()> {
    if least <= KNOWN {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "the database at {place} is too new: it needs a program that knows schema {least}, this one knows {KNOWN}; \
         start the newer program"
    )))
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection> {
    try_to_connect(options).await.map_err(|error| not_connected(options, &error))
}

async fn try_to_connect(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let silent = |_| sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
    timeout(CONNECT_TIMEOUT, options.connect()).await.map_err(silent)?
}

fn not_connected(options: &PgConnectOptions, error: &sqlx::Error) -> Error {
    let place = location(options);
    Error::Unusable(match error.as_database_error() {
        Some(answer) if answer.message().starts_with("unsupported startup parameter") => {
            format!("PostgreSQL refuses {place}: {}. {WITHOUT_POOLER}", answer.message())
        }
        // The whole error also names a line of PostgreSQL's source.
        Some(answer) => format!("PostgreSQL refuses {place}: {}", answer.message()),
        None => format!("PostgreSQL at {place} cannot be reached: {error}"),
    })
}

/// Why no connection can be opened within this time; `None`: one can. `/readyz` shows it to everybody, so it does not name
/// the address.
pub(super) async fn connect_error(options: &PgConnectOptions, patience: Duration) -> Option<String> {
    match timeout(patience, options.connect()).await {
        Ok(Ok(connection)) => {
            let _ = timeout(patience, connection.close()).await;
            None
        }
        Ok(Err(error)) => Some(match error.as_database_error() {
            Some(answer) => format!("PostgreSQL refuses connections: {}", answer.message()),
            None => format!("PostgreSQL cannot be reached: {error}"),
        }),
        Err(_) => Some("PostgreSQL cannot be reached: it does not answer".to_owned()),
    }
}

/// Returns once the database accepts a connection. While its server cannot be reached, or still starts, it is retried for
/// this long; any other error, such as a wrong password, is returned at once.
pub(super) async fn await_connection(options: &PgConnectOptions, patience: Duration) -> Result<()> {
    let until = Instant::now() + patience;
    let mut is_logged = false;
    loop {
        match try_to_connect(options).await {
            Ok(connection) => {
                let _ = connection.close().await;
                return Ok(());
            }
            Err(error) if fault::is_not_serving(&error) && Instant::now() < until => {
                if !is_logged {
                    let (place, seconds) = (location(options), patience.as_secs());
                    tracing::warn!(%error, "the start waits up to {seconds} s for PostgreSQL at {place}");
                    is_logged = true;
                }
                sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(not_connected(options, &error)),
        }
    }
}

/// What this server needs to know about the database's settings.
pub(super) struct Server {
    /// Why an acknowledged commit may be lost.
    pub weakness: Option<String>,
    /// Whether it can detect disconnected clients.
    can_check: bool,
    /// What limits the connections of this role, and to how many.
    most_connections: Option<(&'static str, i32)>,
}

impl Server {
    /// That one process may open more connections than it can have.
    pub fn too_few_for(&self, needed: u32) -> Option<String> {
        let (what, most) = self.most_connections.filter(|(_, most)| i64::from(*most) < i64::from(needed))?;
        Some(format!(
            "one server may open {needed} connections (store.connections and 4 more), and PostgreSQL allows {most}: raise \
             {what}, or lower store.connections"
        ))
    }
}

pub(super) async fn server(session: &PgConnectOptions) -> Result<Server> {
    let mut connection = connect(session).await?;
    let weakness = weakness(&mut connection).await?;
    let most_connections = most_connections(&mut connection).await?;
    let can_check = turn_on_client_check(&mut connection).await;
    let _ = connection.close().await;
    Ok(Server { weakness, can_check, most_connections })
}

/// What limits the connections of this role most, and to how many: the whole server, without those that it reserves for
/// others, the role, or the database. A superuser is limited by the server only.
async fn most_connections(connection: &mut PgConnection) -> Result<Option<(&'static str, i32)>> {
    let asked = sqlx::query_as(
        "SELECT rolsuper, current_setting('max_connections')::int,
             current_setting('superuser_reserved_connections')::int
                 + coalesce(current_setting('reserved_connections', true)::int, 0),
             rolconnlimit, datconnlimit
         FROM pg_roles, pg_database WHERE rolname = session_user AND datname = current_database()",
    );
    let asked: Option<(bool, i32, i32, i32, i32)> = asked.fetch_optional(connection).await.map_err(fault::error)?;
    let Some((is_superuser, most, reserved, of_role, of_database)) = asked else { return Ok(None) };
    if is_superuser {
        return Ok(Some(("max_connections", most)));
    }
    let limits = [
        ("max_connections", most - reserved),
        ("the CONNECTION LIMIT of the role", of_role),
        ("the CONNECTION LIMIT of the database", of_database),
    ];
    // A limit of -1 is none.
    Ok(limits.into_iter().filter(|(_, most)| *most >= 0).min_by_key(|(_, most)| *most))
}

async fn weakness(connection: &mut PgConnection) -> Result<Option<String>> {
    let asked = sqlx::query_as(
        "SELECT current_setting('synchronous_commit') IN ('on', 'remote_apply'), current_setting('fsync')::boolean,
             current_setting('full_page_writes')::boolean",
    );
    let (waits, syncs, is_whole): (bool, bool, bool) = asked.fetch_one(connection).await.map_err(fault::error)?;
    let mut weak = Vec::new();
    if !waits {
        weak.push("synchronous_commit does not stay on in our sessions (is there a pooler in between?)");
    }
    if !syncs {
        weak.push("fsync is off");
    }
    if !is_whole {
        weak.push("full_page_writes is off");
    }
    let lost = "PostgreSQL may lose what it acknowledged when its machine fails";
    Ok((!weak.is_empty()).then(|| format!("{lost}: {}", weak.join("; "))))
}

/// Whether the migration failed because others hold a lock that it needs.
fn is_locked(error: &MigrateError) -> bool {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => fault::is_locked(error),
        // The enum is not ours, and grows.
        _ => false,
    }
}

fn refusal(place: &str, error: &MigrateError) -> String {
    match error {
        MigrateError::VersionMismatch(version) => {
            format!("the database at {place} was made by another program: its schema {version} differs from ours")
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            let why = error.as_database_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned());
            format!("the schema of the database at {place} cannot be prepared: {why}")
        }
        other => format!("the schema of the database at {place} cannot be prepared: {other}"),
    }
}
