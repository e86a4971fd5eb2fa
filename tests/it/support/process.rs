//! The real binary as a child process, which may be held at a failpoint and killed there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection as _, PgConnection};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdout, Command};

use super::http::{Ask, PATIENCE, soon};
use super::postgres::Database;

/// A query that a server has accepted: it said which run answers it.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub thread: String,
    pub query: String,
    pub run: String,
}

/// What outlives a process: its data, its script, the file in which its tools count, and what its clients were told.
pub struct Place {
    folder: tempfile::TempDir,
    database: Option<Database>,
    accepted: Mutex<Vec<Accepted>>,
    /// The name that all its processes have; else each has its own.
    replica: Option<&'static str>,
    /// Processes started so far.
    processes: AtomicU32,
}

impl Place {
    pub fn sqlite(script: &str) -> Self {
        Self::with(script, None)
    }

    pub async fn postgres(script: &str) -> Self {
        Self::with(script, Some(Database::fresh().await))
    }

    fn with(script: &str, database: Option<Database>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = Self { folder, database, accepted: Mutex::default(), replica: None, processes: AtomicU32::new(0) };
        let counted = place.counted();
        let script = script.replace("{counted}", counted.to_str().expect("a plain path"));
        std::fs::write(place.file("script.toml"), script).expect("the folder takes files");
        let made = std::process::Command::new("mkfifo").arg(place.file("pipe")).status();
        assert!(made.expect("there is mkfifo").success());
        place
    }

    /// Processes with one name take the lease from each other, so they renew it often.
    pub fn with_one_name(mut self, replica: &'static str) -> Self {
        self.replica = Some(replica);
        self
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Settings in addition to those in the environment.
    pub fn configure(&self, toml: &str) {
        std::fs::create_dir_all(self.file("config")).expect("the folder takes folders");
        std::fs::write(self.file("config/local.toml"), toml).expect("the folder takes files");
    }

    pub fn database_url(&self) -> Option<String> {
        self.database.as_ref().map(Database::url)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another command of the binary, with the same settings and the same database.
    pub fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pes"));
        command.args(arguments).env_clear().env("PES_DATA_DIR", self.file("data")).current_dir(self.folder.path());
        command.env("PES_DEMO_PACE", "0").env("PES_DEMO_SCRIPT", self.file("script.toml"));
        command.envs(self.database.as_ref().map(|database| ("DATABASE_URL", database.url())));
        command.output().expect("the binary starts")
    }

    /// Keeps what a client was told.
    pub fn note(&self, accepted: Accepted) {
        self.accepted.lock().expect("nobody panics").push(accepted);
    }

    pub fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().expect("nobody panics").clone()
    }

    /// The file to which `test_count` appends a line at each execution.
    pub fn counted(&self) -> PathBuf {
        self.file("counted")
    }

    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.counted()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The server's address.
#[derive(Clone, Copy)]
pub struct Address(SocketAddr);

impl Address {
    pub fn at(address: SocketAddr) -> Self {
        Self(address)
    }

    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }

    pub fn ask(self, method: &str, path: &str) -> Ask {
        Ask::new(self.0, method, path)
    }
}

/// The lease of a process in a database that it shares with others.
struct Lease {
    url: String,
    replica: String,
}

impl Lease {
    /// Far longer than a test takes: none loses its lease because the machine is busy.
    const LONG: &str = "600000";

    /// Ends the lease of a process that was killed: others take over now what they would take over later.
    async fn expire(&self) {
        let mut connection = PgConnection::connect(&self.url).await.expect("the cluster accepts connections");
        let end = sqlx::query("UPDATE replicas SET alive_until = now() WHERE name = $1").bind(&self.replica);
        end.execute(&mut connection).await.expect("there is the table of leases");
    }
}

pub struct Server {
    pub address: Address,
    child: Child,
    lease: Option<Lease>,
    pipe: BufReader<pipe::Receiver>,
    _said: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it, and returns once it answers. `failpoint` is `name@n`.
    pub async fn start(place: &Place, failpoint: Option<&str>) -> Self {
        Self::of(&program(), place, failpoint, &[]).await
    }

    /// The same with another build of the program, or with further variables.
    pub async fn of(program: &Path, place: &Place, failpoint: Option<&str>, settings: &[(&str, &str)]) -> Self {
        let (mut child, lease, pipe) = spawn(program, place, failpoint, settings);
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = None;
        loop {
            let mut line = String::new();
            if soon(said.read_line(&mut line)).await.expect("text") == 0 {
                let log = std::fs::read_to_string(place.file("log")).unwrap_or_default();
                panic!("it ended before it was ready: {log}");
            }
            match line.trim_end().rsplit_once("http://") {
                Some((_, bound)) => address = bound.parse().ok(),
                None if line.trim_end() == "ready" => break,
                None => {}
            }
        }
        let address = address.expect("it says its URL before it is ready");
        Self { address: Address(address), child, lease, pipe, _said: said }
    }

    /// Starts a process that reaches its failpoint before it answers, and kills it there.
    pub async fn killed_before_it_answers(place: &Place, failpoint: &str) {
        let (child, lease, mut pipe) = spawn(&program(), place, Some(failpoint), &[]);
        soon(pipe.read_line(&mut String::new())).await.expect("the pipe stays open");
        kill(child, lease).await;
    }

    /// Waits until the process is held at its failpoint, whose name it writes to the fifo as one line.
    pub async fn reached(&mut self) {
        let mut line = String::new();
        self.pipe.read_line(&mut line).await.expect("the pipe stays open");
    }

    /// The same with a time-out, for a test that does nothing meanwhile: it fails if the failpoint is never reached.
    pub async fn must_reach(&mut self) {
        let reached = tokio::time::timeout(PATIENCE, self.reached()).await;
        reached.expect("the failpoint is not passed so often: adjust the number behind its `@`");
    }

    /// kill -9.
    pub async fn kill(self) {
        kill(self.child, self.lease).await;
    }

    /// SIGTERM.
    pub fn stop(&self) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it is ours");
    }

    /// Waits until it ends by itself; its exit status.
    pub async fn ended(&mut self) -> std::process::ExitStatus {
        soon(self.child.wait()).await.expect("it can be waited for")
    }
}

async fn kill(mut child: Child, lease: Option<Lease>) {
    child.kill().await.expect("it can be killed");
    if let Some(lease) = lease {
        lease.expire().await;
    }
}

/// The program of this release.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_pes"))
}

fn spawn(
    program: &Path,
    place: &Place,
    failpoint: Option<&str>,
    settings: &[(&str, &str)],
) -> (Child, Option<Lease>, BufReader<pipe::Receiver>) {
    // A reader of a fifo sees its end as soon as nobody has it open for writing, and `reached` would return at once. So
    // this side holds the writing end, too, and the read waits for the process.
    let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(place.file("pipe")).expect("the fifo");
    let log = std::fs::File::options().create(true).append(true).open(place.file("log")).expect("a log");
    let mut command = Command::new(program);
    command.env_clear().env("PORT", "0").env("PES_DATA_DIR", place.file("data")).env("PES_LEASE_MS", "1500");
    command.env("PES_DEMO_PACE", "0").env("PES_DEMO_SCRIPT", place.file("script.toml"));
    // Ignore proxies that the environment names.
    command.envs(["http_proxy", "https_proxy", "all_proxy"].map(|name| (name, "http://127.0.0.1:1")));
    command.envs(place.database_url().map(|url| ("DATABASE_URL", url)));
    command.envs(settings.iter().copied());
    command.envs(place.replica.map(|replica| ("PES_REPLICA", replica)));
    let lease = place.database_url().filter(|_| place.replica.is_none()).map(|url| {
        let replica = format!("process-{}", place.processes.fetch_add(1, Ordering::Relaxed));
        command.env("PES_REPLICA", &replica).env("PES_LEASE_MS", Lease::LONG);
        Lease { url, replica }
    });
    command.envs(failpoint.map(|name| ("PES_FAILPOINT", name)));
    command.env("PES_FAILPOINT_PIPE", place.file("pipe"));
    command.current_dir(place.folder.path()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    (command.spawn().expect("the binary starts"), lease, BufReader::new(pipe))
}
