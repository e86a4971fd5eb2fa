//! The smallest durable write in a loop, on one connection to the same kinds of databases: the commit rate of this disk.

use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::Outcome;
use crate::bed::{Bed, Kind, Slice};
use crate::cluster::Database;
use crate::load::Done;
use crate::report::Book;

const SLICE: Duration = Duration::from_millis(300);
const INSERT: &str = "INSERT INTO raw VALUES (1)";

pub struct Raw {
    sqlite: Option<SqliteConnection>,
    postgres: Option<(PgConnection, Database)>,
}

impl Raw {
    pub async fn open(bed: &Bed) -> Outcome<Self> {
        let mut raw = Self { sqlite: None, postgres: None };
        if bed.kinds.contains(&Kind::Sqlite) {
            let file = bed.folder("raw")?.join("raw.db");
            let mut connection = SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", file.display())).await?;
            for pragma in ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 4000"]
            {
                connection.execute(pragma).await?;
            }
            connection.execute("CREATE TABLE IF NOT EXISTS raw (n INTEGER)").await?;
            raw.sqlite = Some(connection);
        }
        if let Some(database) = bed.database().await {
            let mut connection = database.connect().await;
            connection.execute("CREATE TABLE raw (n bigint)").await?;
            raw.postgres = Some((connection, database));
        }
        Ok(raw)
    }

    /// Measures one slice of each.
    pub async fn measure(&mut self, book: &mut Book) -> Outcome<()> {
        if let Some(connection) = &mut self.sqlite {
            let done = commits(async || connection.execute(INSERT).await.map(drop)).await?;
            book.add("raw", "one connection", "commit", "sqlite", Slice { done, ..Slice::default() });
        }
        if let Some((connection, _)) = &mut self.postgres {
            let done = commits(async || connection.execute(INSERT).await.map(drop)).await?;
            book.add("raw", "one connection", "commit", "postgres", Slice { done, ..Slice::default() });
        }
        Ok(())
    }
}

async fn commits(mut one: impl AsyncFnMut() -> Result<(), sqlx::Error>) -> Outcome<Done> {
    let began = Instant::now();
    let mut done = Done::default();
    while began.elapsed() < SLICE {
        let at = Instant::now();
        one().await?;
        done.latencies.push(at.elapsed().as_secs_f64() * 1_000.0);
    }
    done.count = done.latencies.len() as u64;
    done.took = began.elapsed();
    Ok(done)
}
