//! The environment of every workload: the model, the proxy, a database cluster, servers, and measurements of what each spent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Database};
use crate::load::Done;
use crate::process::{self, Own, Usage};
use crate::server::{Counted, Place, Server};
use crate::{Outcome, Wanted};

/// Durable, as in production.
const CLUSTER: &[&str] = &["fsync=on", "synchronous_commit=on", "max_connections=200"];

/// The requests that the parts accept: the calls of a run, its commits, and both in sequence.
pub const PARTS: [&str; 3] = ["calls", "commits", "parts"];

/// No call of the bed waits for a permit.
const NO_GATE: &str = "[models.gate]\nper_provider = 4096\nper_key = 4096\nper_tenant = 4096\nqueue = 65536\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

pub struct Bed {
    pub model: Own,
    pub proxy: Own,
    pub is_quick: bool,
    pub kinds: Vec<Kind>,
    /// With the names that their rows show; empty for the binary under test.
    binaries: Vec<(&'static str, PathBuf)>,
    parts: Option<PathBuf>,
    cluster: Option<&'static Cluster>,
    folder: PathBuf,
    places: std::cell::Cell<usize>,
}

/// A server and its name in the table.
pub struct Subject {
    pub name: String,
    pub place: Place,
    pub server: Server,
}

impl Subject {
    /// Stops the server, so that everything is written, and starts it again on the same data.
    pub async fn restart(self) -> Outcome<Self> {
        let Self { name, place, server } = self;
        server.stop().await?;
        let server = Server::start(&place).await?;
        Ok(Self { name, place, server })
    }

    /// The same after a crash.
    pub async fn crash(self) -> Outcome<Self> {
        let Self { name, place, server } = self;
        server.kill().await?;
        let server = Server::start(&place).await?;
        Ok(Self { name, place, server })
    }
}

/// The model calls and the commits of a run without a server around them: `benches/parts`.
pub struct Parts {
    /// The name of the server that the parts are compared with.
    pub of: String,
    own: Own,
    database: Option<Database>,
}

/// The subject of one slice.
pub enum Target<'t> {
    Model,
    Proxy,
    Server(&'t Subject),
    /// The second member is the path of the request.
    Parts(&'t Parts, &'static str),
}

/// The resources spent so far.
#[derive(Clone, Copy)]
pub struct Reading {
    at: Instant,
    pub subject: Usage,
    pub database: Usage,
    model: Duration,
    load: Duration,
    counted: Counted,
}

/// What a slice did, and its cost.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    pub done: Done,
    pub cpu: Duration,
    pub database_cpu: Duration,
    pub written: u64,
    pub counted: Counted,
    pub rss: u64,
    /// Share of one core's time, in this slice.
    pub model_share: f64,
    pub load_share: f64,
}

impl Bed {
    pub async fn new(wanted: &Wanted) -> Outcome<Self> {
        let Wanted { kinds, is_quick, .. } = wanted;
        let this = std::env::current_exe()?;
        let model = Own::start(&this, &["model".to_owned()]).await?;
        let proxy = Own::start(&this, &["proxy".to_owned(), model.address.to_string()]).await?;
        let mut binaries = vec![("", wanted.server.clone())];
        binaries.extend(wanted.against.clone().map(|binary| (", older", binary)));
        // The cluster ends with this process.
        let cluster: Option<&'static Cluster> =
            kinds.contains(&Kind::Postgres).then(|| &*Box::leak(Box::new(Cluster::start(CLUSTER))));
        let folder = std::env::current_dir()?.join(format!("target/bench/data-{}", std::process::id()));
        let (is_quick, kinds, parts) = (*is_quick, kinds.clone(), wanted.parts.clone());
        Ok(Self { model, proxy, is_quick, kinds, binaries, parts, cluster, folder, places: Default::default() })
    }

    /// One server for each binary and database, with these settings and a gate that never delays a call.
    pub async fn servers(&self, settings: &str) -> Outcome<Vec<Subject>> {
        self.servers_with_gate(&format!("{settings}\n{NO_GATE}")).await
    }

    /// The same without a setting for the gate: `settings` is complete.
    pub async fn servers_with_gate(&self, settings: &str) -> Outcome<Vec<Subject>> {
        let mut subjects = Vec::new();
        for kind in &self.kinds {
            for (suffix, binary) in &self.binaries {
                let nth = self.places.replace(self.places.get() + 1);
                let database = match kind {
                    Kind::Sqlite => None,
                    Kind::Postgres => self.database().await,
                };
                let folder = self.folder.join(nth.to_string());
                let place = Place::new(binary, folder, database, self.model.address, settings)?;
                let server = Server::start(&place).await?;
                subjects.push(Subject { name: format!("{}{suffix}", kind.name()), place, server });
            }
        }
        Ok(subjects)
    }

    /// One process per database, if parts were requested.
    pub async fn parts(&self) -> Outcome<Vec<Parts>> {
        let mut all = Vec::new();
        for (binary, kind) in self.parts.iter().flat_map(|binary| self.kinds.iter().map(move |kind| (binary, kind))) {
            let folder = self.folder(&format!("parts-{}", kind.name()))?;
            let database = match kind {
                Kind::Sqlite => None,
                Kind::Postgres => self.database().await,
            };
            let mut arguments = vec![self.model.address.to_string(), folder.display().to_string()];
            arguments.extend(database.as_ref().map(Database::url));
            let own = Own::start(binary, &arguments).await?;
            all.push(Parts { of: kind.name().to_owned(), own, database });
        }
        Ok(all)
    }

    /// A folder for a database without a server.
    pub fn folder(&self, name: &str) -> Outcome<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// A database of the cluster, if there is one.
    pub async fn database(&self) -> Option<Database> {
        match self.cluster {
            Some(cluster) => Some(cluster.database().await),
            None => None,
        }
    }

    /// Reads what the target, the model and this process have spent so far.
    pub async fn read(&self, target: &Target<'_>) -> Outcome<Reading> {
        let (pid, database, counted) = match target {
            Target::Model => (self.model.pid, Usage::default(), Counted::default()),
            Target::Proxy => (self.proxy.pid, Usage::default(), Counted::default()),
            Target::Server(subject) => {
                (subject.server.pid, spent(subject.place.database.as_ref())?, subject.server.counted().await?)
            }
            Target::Parts(parts, _) => (parts.own.pid, spent(parts.database.as_ref())?, Counted::default()),
        };
        let of = |pid: u32| process::usage(pid).map(|usage| usage.cpu);
        let (model, load) = (of(self.model.pid)?, of(std::process::id())?);
        Ok(Reading { at: Instant::now(), subject: process::usage(pid)?, database, model, load, counted })
    }

    /// Does the work and measures its cost.
    pub async fn slice(&self, target: &Target<'_>, work: impl Future<Output = Outcome<Done>>) -> Outcome<Slice> {
        let before = self.read(target).await?;
        let done = work.await?;
        let after = self.read(target).await?;
        Ok(before.until(&after, done))
    }

    pub fn rounds(&self) -> usize {
        if self.is_quick { 3 } else { 7 }
    }

    /// The duration of a slice of a closed loop.
    pub fn slice_time(&self) -> Duration {
        Duration::from_millis(if self.is_quick { 800 } else { 2_000 })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // It only contains what the servers stored.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What the database's cluster has spent, if there is one.
fn spent(database: Option<&Database>) -> Outcome<Usage> {
    Ok(database.map(|database| process::cluster(&database.socket())).transpose()?.unwrap_or_default())
}

impl Target<'_> {
    pub fn address(&self, bed: &Bed) -> SocketAddr {
        match self {
            Self::Model => bed.model.address,
            Self::Proxy => bed.proxy.address,
            Self::Server(subject) => subject.server.address,
            Self::Parts(parts, _) => parts.own.address,
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Model => "model".to_owned(),
            Self::Proxy => "proxy".to_owned(),
            Self::Server(subject) => subject.name.clone(),
            Self::Parts(parts, which) => format!("{}, {which}", parts.of),
        }
    }
}

impl Reading {
    fn until(&self, after: &Self, done: Done) -> Slice {
        let wall = after.at.duration_since(self.at).as_secs_f64();
        let share = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() / wall;
        Slice {
            done,
            cpu: after.subject.cpu.saturating_sub(self.subject.cpu),
            database_cpu: after.database.cpu.saturating_sub(self.database.cpu),
            written: after.subject.written - self.subject.written
                + after.database.written.saturating_sub(self.database.written),
            counted: Counted {
                commits: after.counted.commits - self.counted.commits,
                transactions: after.counted.transactions - self.counted.transactions,
                items: after.counted.items - self.counted.items,
            },
            rss: after.subject.rss,
            model_share: share(self.model, after.model),
            load_share: share(self.load, after.load),
        }
    }
}
