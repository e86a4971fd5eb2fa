//! Both stores do the same: random commits, chores and reads are applied to SQLite and to PostgreSQL, and every answer must
//! be equal. A failure names the seed and the step; the same seed makes the same steps.
//!
//! What is written has the shape that the server gives it: ids of runs, questions and tasks are unique, a caller status comes
//! with its run, bodies are the JSON of their kind or no JSON at all. Where the traits leave an order open, it is sorted.
//! One seed is run by default, all with `PES_TEST_ALL=1`.

mod chores;
mod outbox;
mod random;
mod reads;
mod tenants;
mod writes;

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

use pes::config::env::Variables;
use pes::domain::Millis;
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::store::outbox::Delivery;
use pes::store::{Error, Page, PageAsk, Result, Store};
use uuid::Uuid;

use super::bed::Bed;
use random::Random;

const STEPS: i64 = 200;

type AnyStore = Arc<dyn Store>;

/// The registered process, and one that is not.
const REPLICAS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(2)];

#[tokio::test]
async fn both_stores_do_the_same() {
    let seeds = if Variables::of_process().get("PES_TEST_ALL").is_some() { 32 } else { 1 };
    for seed in 0..seeds {
        Comparison::begin(seed).await.run().await;
    }
}

/// Two stores, and what the steps so far have put into both.
struct Comparison {
    sqlite: Bed,
    postgres: Bed,
    seed: u64,
    random: Random,
    tenants: [TenantPk; 2],
    /// Those that exist.
    threads: Vec<ThreadPk>,
    claimed: Vec<Delivery>,
    /// The ids of keys that were added.
    keys: Vec<String>,
    /// The number of the last delivery.
    last_delivery: u64,
    /// The number of the step, which is its time too.
    now: Millis,
    compared: Cell<u64>,
}

impl Comparison {
    async fn begin(seed: u64) -> Self {
        let (sqlite, postgres) = (Bed::sqlite().await, Bed::postgres().await);
        let tenants = [sqlite.tenant, sqlite.other_tenant().await.tenant];
        assert_eq!(tenants, [postgres.tenant, postgres.other_tenant().await.tenant]);
        for bed in [&sqlite, &postgres] {
            bed.register(REPLICAS[0], 1_000_000).await;
        }
        // However the log is stored, it is read the same.
        let compressed = if seed.is_multiple_of(2) { &sqlite } else { &postgres };
        compressed.store.compress_log().await.unwrap();
        let (threads, claimed, keys) = (Vec::new(), Vec::new(), Vec::new());
        let (random, compared) = (Random::new(seed), Cell::new(0));
        Self { sqlite, postgres, seed, random, tenants, threads, claimed, keys, last_delivery: 0, now: 0, compared }
    }

    async fn run(&mut self) {
        for step in 0..STEPS {
            self.now = step;
            match self.random.below(24) {
                0..12 => self.commit().await,
                12..15 => self.change_thread().await,
                15 => self.claim().await,
                16 => self.settle().await,
                17 => self.replay_or_abandon().await,
                18 => self.plan().await,
                19 => self.forget().await,
                _ => self.configure().await,
            }
            self.read_some().await;
        }
        self.read_all().await;
        assert!(self.compared.get() > 1_000, "seed {}: only {} answers", self.seed, self.compared.get());
    }

    /// Does the same in both stores, and returns the common answer. Of two failures the texts may differ.
    async fn same<T: Debug>(&self, what: impl Debug, ask: impl AsyncFn(AnyStore) -> Result<T>) -> Result<T> {
        let sqlite = ask(self.sqlite.store.clone()).await;
        let postgres = ask(self.postgres.store.clone()).await;
        let (one, other) = (shown(&sqlite), shown(&postgres));
        let (seed, step) = (self.seed, self.now);
        assert!(
            one == other,
            "seed {seed}, step {step}: {what:?}\nSQLite answers     {one}\nPostgreSQL answers {other}"
        );
        self.compared.set(self.compared.get() + 1);
        sqlite
    }

    /// The same for what must succeed.
    async fn done<T: Debug>(&self, what: impl Debug, ask: impl AsyncFn(AnyStore) -> Result<T>) -> T {
        let (seed, step) = (self.seed, self.now);
        self.same(&what, ask).await.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {what:?}: {error}"))
    }

    fn a_tenant(&mut self) -> TenantPk {
        *self.random.of(&self.tenants)
    }

    /// `None`: there is none yet.
    fn a_thread(&mut self) -> Option<ThreadPk> {
        (!self.threads.is_empty()).then(|| *self.random.of(&self.threads))
    }
}

fn shown<T: Debug>(answer: &Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(Error::Unavailable(_)) => "unavailable".to_owned(),
        Err(Error::Refused(_)) => "refused".to_owned(),
        Err(Error::Damaged(_)) => "damaged".to_owned(),
        Err(Error::Unusable(_)) => "unusable".to_owned(),
    }
}

/// The pages of a list, of this size each, up to the last.
async fn pages<T>(limit: u32, list: impl AsyncFn(PageAsk) -> Result<Page<T>>) -> Result<Vec<Vec<T>>> {
    let (mut pages, mut ask) = (Vec::new(), PageAsk::first(limit));
    loop {
        let page = list(ask.clone()).await?;
        pages.push(page.items);
        if pages.len() > 2_000 {
            return Err(Error::Damaged("the list does not end".to_owned()));
        }
        if page.next_cursor.is_none() {
            return Ok(pages);
        }
        ask.cursor = page.next_cursor;
    }
}
