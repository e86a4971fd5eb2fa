//! A store whose database the test also writes to directly.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::store::sqlite::Sqlite;
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};

use crate::store::bed::Bed;
use crate::support::postgres::Database;
use crate::support::store::store_on;

pub struct Tampered {
    pub bed: Bed,
    stored: Stored,
}

enum Stored {
    Sqlite(Arc<tempfile::TempDir>),
    Postgres(Arc<Database>),
}

impl Tampered {
    pub async fn sqlite() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let store = Sqlite::open(folder.path(), Synchronous::Normal).await.expect("a fresh folder");
        Self { bed: Bed::on(Arc::new(store), folder.clone()).await, stored: Stored::Sqlite(folder) }
    }

    pub async fn postgres() -> Self {
        let database = Arc::new(Database::fresh().await);
        let store = store_on(&database).await;
        Self { bed: Bed::on(store, database.clone()).await, stored: Stored::Postgres(database) }
    }

    /// Runs these statements.
    pub async fn write(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.stored {
            Stored::Sqlite(folder) => {
                let url = format!("sqlite:{}", folder.path().join("pes.db").display());
                let mut other = SqliteConnection::connect(&url).await.expect("it is there");
                other.execute(sqlx::raw_sql(sql)).await.expect("it takes writes");
                other.close().await.expect("it is not in use");
            }
            Stored::Postgres(database) => {
                let mut other = database.connect().await;
                other.execute(sqlx::raw_sql(sql)).await.expect("it takes writes");
            }
        }
    }
}
