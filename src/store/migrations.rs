//! The migrations of both databases, in order, embedded. A released file is never edited: the next one is appended. Each
//! also adds an audit line: from which version to which, and by which version of the program.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

macro_rules! migrations {
    ($database:literal) => {
        migrations! { $database:
            1 "schema" "0001_schema",
            2 "erasure" "0002_erasure",
            3 "retention" "0003_retention",
            4 "backup" "0004_backup",
            5 "schedules" "0005_schedules",
            6 "audit chain" "0006_audit_chain",
            7 "spend" "0007_spend",
            8 "people" "0008_people",
            9 "periods of spend" "0009_spend_periods",
            10 "deleted documents" "0010_deleted_documents",
            11 "cap that was told of" "0011_told_of",
            12 "runs that wait to begin" "0012_waits_to_begin",
            13 "deliveries of tenants" "0013_deliveries_of_tenants",
            14 "deliveries to collectors" "0014_deliveries_to_collectors",
            15 "deliveries by status" "0015_deliveries_by_status",
            16 "runs by standing" "0016_runs_by_standing",
            17 "sessions of a holder" "0017_sessions_of_holder",
            18 "compressed log" "0018_compressed_log",
        }
    };
    ($database:literal: $($version:literal $words:literal $file:literal,)+) => {
        &[$(($version, $words, include_str!(concat!("../../migrations/", $database, "/", $file, ".sql")))),+]
    };
}

/// Version, words, statements.
type EmbeddedMigration = (i64, &'static str, &'static str);

pub(super) const SQLITE: &[EmbeddedMigration] = migrations!("sqlite");
pub(super) const POSTGRES: &[EmbeddedMigration] = migrations!("postgres");

/// The schema that this program needs.
pub(super) const KNOWN: i64 = SQLITE[SQLITE.len() - 1].0;

/// The schema that a program must know to read compressed entries of the log.
pub(super) const COMPRESSED_LOG: i64 = 18;

/// `now` is the database's expression for the current time. Migrations of newer versions are ignored: the floor permits this
/// version to use the database.
pub(super) fn migrator(migrations: &[EmbeddedMigration], now: &str) -> Migrator {
    let migration = |&(version, words, sql): &EmbeddedMigration| {
        let (words, sql) = (Cow::Borrowed(words), SqlStr::from_static(sql));
        with_audit_line(Migration::new(version, words, MigrationType::Simple, sql, false), now)
    };
    let mut migrator = Migrator::with_migrations(migrations.iter().map(migration).collect());
    migrator.set_ignore_missing(true);
    migrator
}

/// Adds an audit line for each tenant, in the same transaction. The checksum stays that of the file. The first migration has
/// no tenants yet.
fn with_audit_line(migration: Migration, now: &str) -> Migration {
    let (to, program) = (migration.version, env!("CARGO_PKG_VERSION"));
    if to == 1 {
        return migration;
    }
    let sql = format!(
        "{}
INSERT INTO audit (pk, tenant, at, thread_id, actor, action, detail)
SELECT 0, pk, {now}, NULL, 'server', 'migrate', '{{\"from\":{},\"program\":\"{program}\",\"to\":{to}}}' FROM tenants ORDER BY pk;",
        migration.sql.as_str(),
        to - 1,
    );
    Migration { sql: AssertSqlSafe(sql).into_sql_str(), ..migration }
}
