//! Random use of a whole server, or of several processes on one database: queries, answers, edits, retries, cancels, copies,
//! imports, ways back, deletions and restarts of a few threads of two tenants, and readers that reconnect. Whenever nothing
//! runs any more, what the guarantees promise is checked.
//!
//! A failure names its seed, and prints what was done and the logs. A seed determines what is asked, not how the server's
//! tasks take turns. `PES_EXPLORE_SEED` is the first seed, which runs alone unless `PES_EXPLORE_SEEDS` says how many
//! there are. `PES_EXPLORE_WITHOUT` names operations and checks that are left out, to find out what a failure depends on,
//! as in `copy,import,fold`.

mod checks;
mod dice;
mod effects;
mod model;
mod operations;
mod processes;
mod readers;
mod server;
mod tools;
mod watchers;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pes::Clock as _;
use pes::config::env::Variables;
use pes::domain::ids::ThreadPk;
use pes::service::retention;
use pes::store::{ObservationAsk, RecentThread, Store, ThreadRow};
use serde_json::Value;
use tokio::sync::watch;

use self::dice::Dice;
use self::effects::Effects;
use self::model::Scripted;
use self::operations::Sent;
use self::readers::{Doors, Reader};
use self::server::{Ask, Parts, Running, Server, TENANTS};
use self::watchers::Watcher;
use crate::support::clocked::DAY;
use crate::support::http::{soon, until};
use crate::support::store::{fresh_store, migrated, store_on};

struct World {
    seed: u64,
    dice: Dice,
    parts: Parts,
    /// The processes that take requests.
    servers: Vec<Server>,
    /// Chooses the process of the next request.
    turn: AtomicU64,
    /// Processes that were stopped or killed; their memory is kept.
    dead: Vec<Server>,
    /// Places of processes that are to begin again.
    down: Vec<usize>,
    doors: Arc<Doors>,
    readers: Vec<Reader>,
    watchers: Vec<Watcher>,
    queries: usize,
    /// Queries that were accepted under a key.
    sent: Vec<Sent>,
    /// Questions by tenant, also those that are answered.
    past: [Vec<Value>; 2],
    answered: BTreeSet<String>,
    /// How often a person had a call in doubt made again.
    retries: BTreeMap<String, usize>,
    /// What copies had behind them, and the seq after which their logs are their own.
    origins: BTreeMap<ThreadPk, (Effects, i64)>,
    /// Copies by tenant that begin where an item was at work.
    copies: [Vec<String>; 2],
    /// Operations and checks that are left out.
    left_out: BTreeSet<String>,
    /// What was done, for people.
    notes: RefCell<Vec<String>>,
}

impl World {
    async fn of(seed: u64, is_shared: bool) -> Self {
        let mut dice = Dice::of(seed << 32);
        let database = if is_shared { Some(Arc::new(migrated().await)) } else { None };
        let store: Arc<dyn Store> = match &database {
            Some(database) => store_on(database).await,
            None => fresh_store().await,
        };
        let parts = Parts {
            store,
            database,
            clock: Arc::new(Running::new()),
            model: Scripted::of(seed),
            calls: Arc::default(),
            idle_ms: [0, 100][dice.pick(2)],
        };
        let replicas = if is_shared { 2 + dice.pick(2) } else { 1 };
        let mut world = Self {
            seed,
            dice,
            servers: Self::start_all(&parts, replicas).await,
            parts,
            turn: AtomicU64::new(0),
            dead: Vec::new(),
            down: Vec::new(),
            doors: Arc::new(watch::channel(Vec::new()).0),
            readers: Vec::new(),
            watchers: Vec::new(),
            queries: 0,
            sent: Vec::new(),
            past: Default::default(),
            answered: BTreeSet::new(),
            retries: BTreeMap::new(),
            origins: BTreeMap::new(),
            copies: Default::default(),
            left_out: left_out(),
            notes: RefCell::default(),
        };
        world.open_doors();
        if world.has("watchers") {
            world.begin_watchers();
        }
        world
    }

    /// Whether this operation or check is not left out.
    fn has(&self, what: &str) -> bool {
        !self.left_out.contains(what)
    }

    fn note(&self, what: String) {
        self.notes.borrow_mut().push(what);
    }

    /// The logs of all threads and the calls that were made, for people.
    async fn logs(&self) -> String {
        let (store, mut text) = (&self.parts.store, String::new());
        for name in TENANTS {
            let tenant = store.tenant(name, 1).await.unwrap();
            for RecentThread { pk, thread_id, .. } in store.recent_threads(tenant, 0).await.unwrap() {
                writeln!(text, "--- {name}/{thread_id}").unwrap();
                let ask = ObservationAsk { limit: 1_000_000, ..ObservationAsk::default() };
                for told in store.observations(pk, &ask).await.unwrap() {
                    let (kind, run, item) = (told.kind.as_str(), &told.run_id, &told.parent_id);
                    let content: String = told.content.to_string().chars().take(700).collect();
                    writeln!(text, "{} {kind} {run} {item:?} {content}", told.seq).unwrap();
                }
            }
        }
        for made in self.parts.calls.made() {
            writeln!(text, "{made:?}").unwrap();
        }
        writeln!(text, "retries: {:?}", self.retries).unwrap();
        text
    }

    async fn row(&self, tenant: usize, thread: &str) -> Option<ThreadRow> {
        let store = &self.parts.store;
        let tenant = store.tenant(TENANTS[tenant], 1).await.unwrap();
        store.thread(tenant, &thread.into()).await.unwrap()
    }

    /// The items of a list; none if there is no such thread.
    async fn list(&self, tenant: usize, path: &str) -> Vec<Value> {
        let said = self.server().send(Ask::get(tenant, path)).await;
        if said.status == 404 { Vec::new() } else { said.expect(200)["items"].as_array().unwrap().clone() }
    }

    async fn threads(&self, tenant: usize) -> Vec<String> {
        let listed = self.list(tenant, "/threads?limit=100").await;
        listed.iter().map(|thread| thread["threadId"].as_str().unwrap().to_owned()).collect()
    }

    async fn explore(&mut self) {
        for _ in 0..2 + self.dice.pick(3) {
            for _ in 0..4 + self.dice.pick(10) {
                match self.dice.pick(18) {
                    0 if self.has("restart") => self.restart().await,
                    1 if self.has("release") => self.release().await,
                    2..=5 => self.wait().await,
                    6 if self.has("tear") => self.tear().await,
                    7 if self.has("readers") => self.begin_reader().await,
                    8 if self.has("reconnect") => self.reconnect(),
                    9 => self.start_again().await,
                    _ => self.act().await,
                }
            }
            self.settle().await;
            if self.dice.one_in(4) && self.has("days") {
                self.note("days pass".to_owned());
                self.parts.clock.put_forward((self.dice.pick(40) as i64) * DAY);
                // Keys are forgotten after a while.
                self.sent.clear();
                self.await_expiry().await;
                let sweeps = self.servers.iter().map(|server| retention::sweep(server.instance.service()));
                join_all(sweeps).await.into_iter().for_each(|swept| _ = swept.unwrap());
                // What was idle for long is not watched.
                self.reconnect_watchers();
                self.settle().await;
            }
        }
        self.finish().await;
    }

    /// Lets the calls that wait return, waits until nothing runs, and checks everything.
    async fn settle(&mut self) {
        self.note("settle".to_owned());
        self.parts.calls.released.send_replace(true);
        self.quiet().await;
        self.check().await;
        self.parts.calls.released.send_replace(false);
    }

    /// Waits until a call waits for its release, until the model was called a few times, or until nothing runs.
    async fn wait(&mut self) {
        self.note("wait".to_owned());
        let (mut held, mut called) = (self.parts.calls.held.subscribe(), self.parts.model.calls.subscribe());
        let until = *called.borrow() + 1 + self.dice.pick(5);
        tokio::select! {
            biased;
            held = held.wait_for(|held| *held > 0) => drop(held.unwrap()),
            called = called.wait_for(|called| *called >= until) => drop(called.unwrap()),
            () = self.quiet() => {}
        }
    }

    /// Lets the calls that wait return.
    async fn release(&mut self) {
        self.note("release".to_owned());
        let calls = &self.parts.calls;
        calls.released.send_replace(true);
        soon(calls.held.subscribe().wait_for(|held| *held == 0)).await.map(drop).unwrap();
        calls.released.send_replace(false);
    }

    /// Waits until no question is open longer than it may be.
    async fn await_expiry(&self) {
        let is_over = async || {
            let lists = join_all((0..TENANTS.len()).map(|tenant| self.list(tenant, "/suspensions?limit=100"))).await;
            let now = self.parts.clock.now();
            lists.iter().flatten().all(|asked| asked["expiresAt"].as_i64().is_none_or(|until| until > now))
        };
        until("the questions expire", is_over).await;
    }

    /// Answers every question until no run is left, and deletes all threads.
    async fn finish(&mut self) {
        self.note("finish".to_owned());
        self.parts.calls.released.send_replace(true);
        for round in 0.. {
            assert!(round < 500, "the runs never end");
            self.quiet().await;
            let mut is_open = false;
            for tenant in 0..TENANTS.len() {
                if let Some(asked) = self.list(tenant, "/suspensions?limit=1").await.first() {
                    let (ask, purpose) = self.answer_to(tenant, asked, false);
                    self.send_one(ask, purpose).await;
                    is_open = true;
                }
            }
            if !is_open {
                break;
            }
        }
        self.check().await;
        for tenant in 0..TENANTS.len() {
            for thread in self.threads(tenant).await {
                let pk = self.row(tenant, &thread).await.unwrap().pk;
                self.readers.retain(|reader| reader.pk != pk);
                self.server().send(Ask::new(tenant, "DELETE", format!("/threads/{thread}"))).await.expect(204);
                self.check_deleted(tenant, pk, &thread).await;
            }
            assert!(self.list(tenant, "/suspensions?limit=1").await.is_empty());
            assert!(self.list(tenant, "/runs?limit=1").await.is_empty());
        }
        self.reconnect_watchers();
        self.check_watchers().await;
        for server in &mut self.servers {
            server.drain().await;
            assert_eq!(server.instance.service().active_threads(), 0);
        }
    }
}

fn left_out() -> BTreeSet<String> {
    let variables = Variables::of_process();
    variables.get("PES_EXPLORE_WITHOUT").unwrap_or_default().split(',').map(str::to_owned).collect()
}

/// Whether the seed passes; what it did is printed if it does not.
fn passes(seed: u64, is_shared: bool) -> bool {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::of(seed, is_shared).await;
            let explored = AssertUnwindSafe(world.explore()).catch_unwind().await;
            if explored.is_err() {
                println!("--- seed {seed} failed; what it did:\n{}", world.notes.borrow().join("\n"));
                println!("{}", world.logs().await);
            }
            explored.is_ok()
        })
    };
    std::thread::spawn(run).join().is_ok_and(|passes| passes)
}

/// Runs this many seeds by default, and this many with `scripts/test --all`.
fn explore(usual: u64, all: u64, is_shared: bool) {
    let variables = Variables::of_process();
    let number = |name: &str| variables.get(name).map(|number| number.parse::<u64>().unwrap());
    let (first, count) = (number("PES_EXPLORE_SEED"), number("PES_EXPLORE_SEEDS"));
    let usual = match (first, variables.get("PES_TEST_ALL")) {
        (Some(_), _) => 1,
        (None, Some(_)) => all,
        (None, None) => usual,
    };
    let (begin, count) = (first.unwrap_or(0), count.unwrap_or(usual));
    let fails = |seed: &u64| !passes(*seed, is_shared);
    let failed: Vec<u64> = (begin..begin + count).filter(fails).take(10).collect();
    assert!(failed.is_empty(), "seeds {failed:?} fail; PES_EXPLORE_SEED=N runs one alone");
}

#[test]
fn whatever_people_do_a_server_keeps_its_promises() {
    explore(4, 60, false);
}

/// Two or three processes on one PostgreSQL.
#[test]
fn whatever_people_do_several_processes_keep_their_promises() {
    explore(2, 40, true);
}
