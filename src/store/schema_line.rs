//! The audit line of a schema migration: from which version to which, and by which version of the program.

use sqlx::migrate::Migration;
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

/// Adds to a migration an audit line for each tenant, in the same transaction. The checksum stays that of its file. `now` is
/// the database's expression for the current time. The first migration has no tenants yet.
pub(crate) fn with_audit_line(migration: Migration, now: &str) -> Migration {
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
