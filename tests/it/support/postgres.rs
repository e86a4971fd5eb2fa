//! PostgreSQL for tests: one cluster per test process, started by the first test that needs it and stopped when the
//! process ends, however it ends (`postgres.sh` waits for the end of a pipe that this process holds). Each test gets a
//! fresh database.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Executor, PgConnection};
use tokio::sync::{mpsc, oneshot};

const SCRIPT: &str = include_str!("postgres.sh");

/// Settings without durability: no data must outlive a test.
const FAST: &[&str] = &["fsync=off", "full_page_writes=off", "max_connections=400", "shared_buffers=64MB"];

/// A running cluster, reached through a Unix socket in its own folder.
pub struct Cluster {
    folder: PathBuf,
    admin: mpsc::UnboundedSender<Statement>,
    databases: AtomicU32,
    // The cluster runs until this pipe closes.
    _alive: (Child, ChildStdin),
}

struct Statement {
    sql: String,
    done: oneshot::Sender<()>,
}

impl Cluster {
    /// The cluster that the tests of this process share.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(FAST))
    }

    /// Returns once it accepts connections.
    pub fn start(settings: &[&str]) -> Cluster {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh", SCRIPT])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let alive = child.stdin.take().expect("it is piped");
        let mut log = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let folder = PathBuf::from(log.next().expect("the first line is the folder").expect("the log is text"));
        await_readiness(&folder, &mut log);
        std::thread::spawn(move || log.for_each(drop));
        let admin = administrate(options(&folder, "postgres"));
        Cluster { folder, admin, databases: AtomicU32::new(0), _alive: (child, alive) }
    }

    /// A fresh, empty database.
    pub async fn database(&'static self) -> Database {
        self.copy("template1").await
    }

    async fn copy(&'static self, template: &str) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin(format!("CREATE DATABASE {name} TEMPLATE {template}")).await.expect("the admin connection answers");
        Database { cluster: self, name }
    }

    fn admin(&self, sql: String) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        self.admin.send(Statement { sql, done }).expect("the admin thread runs as long as the process");
        answer
    }
}

/// One test's database. Dropping it also closes its remaining connections.
pub struct Database {
    cluster: &'static Cluster,
    name: String,
}

impl Database {
    pub async fn fresh() -> Database {
        Cluster::shared().database().await
    }

    /// A database with what this one holds, to which nobody may be connected meanwhile.
    pub async fn copied(&self) -> Database {
        self.cluster.copy(&self.name).await
    }

    /// What `DATABASE_URL` takes.
    pub fn url(&self) -> String {
        format!("postgres:///{}?host={}&port=5432&user=postgres", self.name, self.cluster.folder.display())
    }

    /// The server's address, for a proxy in between.
    pub fn socket(&self) -> PathBuf {
        self.cluster.folder.join(".s.PGSQL.5432")
    }

    /// The same database through a TCP port on loopback.
    pub fn url_through(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{}?sslmode=disable", self.name)
    }

    /// Overwrites the file of an index. The index is made anew before that, which writes its pages past the server's
    /// buffers: they are read from the file when it is used next.
    pub async fn damage(&self, index: &str) {
        let mut connection = self.connect().await;
        connection.execute(sqlx::AssertSqlSafe(format!("REINDEX INDEX {index}"))).await.expect("it is an index");
        let file = sqlx::query_scalar("SELECT pg_relation_filepath($1::text::regclass)").bind(index);
        let file: String = file.fetch_one(&mut connection).await.expect("it has a file");
        let file = self.cluster.folder.join("data").join(file);
        let length = usize::try_from(file.metadata().expect("the file is there").len()).expect("it is short");
        std::fs::write(&file, vec![0xA5; length]).expect("the cluster is ours");
    }

    /// A connection that belongs to no store, as of another program that reads or changes the data.
    pub async fn connect(&self) -> PgConnection {
        options(&self.cluster.folder, &self.name).connect().await.expect("the cluster accepts connections")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Nobody waits for the result.
        drop(self.cluster.admin(format!("DROP DATABASE {} WITH (FORCE)", self.name)));
    }
}

fn await_readiness(folder: &std::path::Path, log: &mut impl Iterator<Item = std::io::Result<String>>) {
    let mut said = vec![folder.display().to_string()];
    for line in log {
        let line = line.expect("the log is text");
        if line.contains("ready to accept connections") {
            return;
        }
        said.push(line);
    }
    panic!("PostgreSQL did not start:\n{}", said.join("\n"));
}

fn options(folder: &std::path::Path, database: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass().socket(folder).port(5432).username("postgres").database(database)
}

/// Creates and drops databases, one at a time, on a thread that outlives every test's runtime.
fn administrate(options: PgConnectOptions) -> mpsc::UnboundedSender<Statement> {
    let (sender, mut statements) = mpsc::unbounded_channel::<Statement>();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
        runtime.block_on(async move {
            let mut connection = options.connect().await.expect("the cluster accepts connections");
            while let Some(Statement { sql, done }) = statements.recv().await {
                connection.execute(sqlx::AssertSqlSafe(sql)).await.expect("databases come and go");
                let _ = done.send(());
            }
        });
    });
    sender
}

#[tokio::test]
async fn two_databases_share_nothing() {
    let (one, other) = (Database::fresh().await, Database::fresh().await);
    one.connect().await.execute("CREATE TABLE t (a int)").await.unwrap();
    other.connect().await.execute("CREATE TABLE t (a int)").await.unwrap();
}
