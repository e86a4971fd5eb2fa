//! A server under test: a process of the binary with its own folder, port, settings and database.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Outcome;
use crate::cluster::Database;
use crate::load::{Connection, get};

/// The parts of a server that outlive its process.
pub struct Place {
    pub binary: PathBuf,
    pub folder: PathBuf,
    /// `None`: SQLite in the folder.
    pub database: Option<Database>,
    pub model: SocketAddr,
}

impl Place {
    /// Settings in the form of `config/local.toml`.
    pub fn new(
        binary: &Path,
        folder: PathBuf,
        database: Option<Database>,
        model: SocketAddr,
        settings: &str,
    ) -> Outcome<Self> {
        std::fs::create_dir_all(folder.join("config"))?;
        std::fs::write(folder.join("config/local.toml"), settings)?;
        Ok(Self { binary: binary.to_owned(), folder, database, model })
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Bytes of the database. For SQLite only the main file counts: stop the server first.
    pub async fn stored(&self) -> Outcome<u64> {
        match &self.database {
            None => Ok(std::fs::metadata(self.data().join("pes.db"))?.len()),
            Some(database) => {
                let size = sqlx::query_scalar("SELECT pg_database_size(current_database())");
                let bytes: i64 = size.fetch_one(&mut database.connect().await).await?;
                Ok(bytes.try_into()?)
            }
        }
    }
}

/// Counters of the server: commits, the transactions they were grouped into, and todo items that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    pub commits: f64,
    pub transactions: f64,
    pub items: f64,
}

pub struct Server {
    pub address: SocketAddr,
    pub pid: u32,
    /// From the start of the process to a successful `GET /readyz`.
    pub ready_after: Duration,
    child: Child,
}

impl Server {
    pub async fn start(place: &Place) -> Outcome<Self> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(place.folder.join("log"))?;
        let mut command = Command::new(&place.binary);
        command.current_dir(&place.folder).env_clear().kill_on_drop(true);
        command.env("PORT", "0").env("PES_DATA_DIR", place.data()).env("PES_MODEL", "openai:bed");
        command.env("OPENAI_BASE_URL", format!("http://{}/v1", place.model));
        command.envs(place.database.as_ref().map(|database| ("DATABASE_URL", database.url())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let began = Instant::now();
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("its output is piped")?).lines();
        let mut address = None;
        while let Some(line) = lines.next_line().await? {
            if let Some(url) = line.strip_prefix("url      http://") {
                address = Some(url.parse()?);
            }
            if line == "ready" {
                break;
            }
        }
        let failed = || format!("{} did not start: see {}/log", place.binary.display(), place.folder.display());
        let address = address.ok_or_else(failed)?;
        let (status, _) = Connection::open(address).await?.whole(&get("/readyz")).await?;
        if status != 200 {
            return Err(format!("/readyz says {status}").into());
        }
        let pid = child.id().ok_or_else(failed)?;
        Ok(Self { address, pid, ready_after: began.elapsed(), child })
    }

    pub async fn counted(&self) -> Outcome<Counted> {
        Ok(counted(&self.metrics().await?))
    }

    /// Successful deliveries of this kind.
    pub async fn delivered(&self, kind: &str) -> Outcome<f64> {
        let begins = format!(r#"pes_outbox_deliveries_total{{kind="{kind}",outcome="delivered""#);
        Ok(sum(&self.metrics().await?, &begins))
    }

    /// Rows of this kind that retention deleted.
    pub async fn deleted(&self, kind: &str) -> Outcome<f64> {
        Ok(sum(&self.metrics().await?, &format!(r#"pes_chore_deleted_total{{kind="{kind}"}}"#)))
    }

    async fn metrics(&self) -> Outcome<String> {
        let (_, text) = Connection::open(self.address).await?.whole(&get("/metrics")).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Sends a termination signal and waits for the end.
    pub async fn stop(mut self) -> Outcome<()> {
        let pid = Pid::from_raw(self.pid.try_into()?).ok_or("a process has a number")?;
        kill_process(pid, Signal::TERM)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Kills the process, like a crash.
    pub async fn kill(mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }
}

fn counted(metrics: &str) -> Counted {
    Counted {
        commits: sum(metrics, "pes_store_commit_batch_size_sum"),
        transactions: sum(metrics, r#"pes_store_commits_total{outcome="done""#),
        items: sum(metrics, "pes_items_finished_total{"),
    }
}

/// The sum of all series that begin with this text.
fn sum(metrics: &str, begins: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(begins));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_transactions_are_told_apart() {
        let text = "# TYPE pes_store_commits_total counter\npes_store_commits_total{outcome=\"done\"} 7\n\
            pes_store_commits_total{outcome=\"lost\"} 2\npes_store_commit_batch_size_bucket{le=\"1\"} 5\n\
            pes_items_finished_total{status=\"completed\"} 3\npes_store_commit_batch_size_sum 12\npes_store_commit_batch_size_count 7\n";
        assert_eq!(counted(text), Counted { commits: 12.0, transactions: 7.0, items: 3.0 });
    }
}
