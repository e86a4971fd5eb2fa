//! Opening: one clear line for everything that may be wrong.

use std::borrow::Cow;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, SqlStr};
use tokio::time::timeout;

use super::writer::CONNECT;
use crate::store::{Error, Result};

/// One file until the first release; from then on files are appended and never edited.
const MIGRATIONS: [(i64, &str, &str); 1] =
    [(1, "schema", include_str!("../../../migrations/postgres/0001_schema.sql"))];

/// The timeouts default to for ever. A plan is made once for each connection, for batches of all sizes; and as every
/// statement finds its rows by an index, one by one, it must do so even if the plan is made while the tables are so small
/// that to read all of them seems cheaper.
const SESSION: [(&str, &str); 7] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("random_page_cost", "0.01"),
    ("jit", "off"),
];

pub(super) fn options(url: &SecretString) -> Result<PgConnectOptions> {
    PgConnectOptions::from_str(url.expose_secret())
        .map(|options| options.application_name("pes"))
        .map_err(|error| Error::Unusable(format!("DATABASE_URL is not a PostgreSQL address: {error}")))
}

/// Where it is, without its password.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(folder) => format!("{}/{database}", folder.display()),
        None if options.get_host().starts_with('/') => format!("{}/{database}", options.get_host()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

pub(super) fn session(options: &PgConnectOptions) -> PgConnectOptions {
    options.clone().options(SESSION)
}

/// Brings the schema up to date. Replicas that start together take turns. A schema that this version does not know is
/// left as it is.
pub(super) async fn migrate(options: &PgConnectOptions) -> Result<()> {
    let place = place(options);
    let unreachable =
        |why: &dyn std::fmt::Display| Error::Unusable(format!("PostgreSQL at {place} cannot be reached: {why}"));
    let mut connection = timeout(CONNECT, options.connect())
        .await
        .map_err(|_| unreachable(&"it does not answer"))?
        .map_err(|error| unreachable(&error))?;
    let migrated = migrator().run_direct(None, &mut connection, false).await;
    // Closing gives back the migrator's lock, also after an error.
    let _ = connection.close().await;
    migrated.map_err(|error| Error::Unusable(refusal(&place, &error)))
}

fn migrator() -> Migrator {
    let migration = |(version, words, sql): (i64, &'static str, &'static str)| {
        Migration::new(version, Cow::Borrowed(words), MigrationType::Simple, SqlStr::from_static(sql), false)
    };
    Migrator::with_migrations(MIGRATIONS.into_iter().map(migration).collect())
}

fn refusal(place: &str, error: &MigrateError) -> String {
    match error {
        MigrateError::VersionMissing(version) => format!(
            "the database at {place} is too new: its schema has version {version}, this program knows {}; \
             start the newer program",
            MIGRATIONS[MIGRATIONS.len() - 1].0
        ),
        MigrateError::VersionMismatch(version) => {
            format!("the database at {place} was made by another program: its schema {version} differs from ours")
        }
        other => format!("the schema of the database at {place} cannot be prepared: {other}"),
    }
}
