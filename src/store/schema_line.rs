//! That the schema was brought up to date, as the audit tells it: from which version to which, and by which version of the
//! program.

use sqlx::migrate::Migration;
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

/// The migration with a line for each tenant, in its own transaction. Its sum is that of its file. `now` says in its own
/// words when it is. The first one has nobody to tell.
pub(crate) fn told(migration: Migration, now: &str) -> Migration {
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
