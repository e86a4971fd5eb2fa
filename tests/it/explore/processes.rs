//! The processes: which one gets a request, and how they stop, die and begin again while the others go on.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use pes::store::PROCESS_CRASHES;

use super::World;
use super::dice::hash;
use super::operations::{Purpose, Sent};
use super::server::{Parts, Server, TENANTS, name};
use crate::support::store::Mood;

impl World {
    pub async fn start_all(parts: &Parts, replicas: usize) -> Vec<Server> {
        join_all((0..replicas).map(|at| Server::start(parts, at))).await
    }

    /// Any process that takes requests.
    pub fn server(&self) -> &Server {
        let turn = self.turn.fetch_add(1, Ordering::SeqCst);
        &self.servers[hash((self.seed, turn)) as usize % self.servers.len()]
    }

    /// Clients connect to the processes that take requests.
    pub fn open_doors(&self) {
        self.doors.send_replace(self.servers.iter().map(|server| server.door.clone()).collect());
    }

    fn take_out(&mut self, at: usize) -> Server {
        let server = self.servers.remove(at);
        self.open_doors();
        server
    }

    /// A process is stopped, or killed: at once, after a commit that it is not told of, or before one. Or it is without the
    /// store for longer than its lease.
    pub async fn restart(&mut self) {
        let (at, how) = (self.dice.pick(self.servers.len()), self.dice.pick(5));
        self.note(format!("restart {how} of {}", self.servers[at].at));
        match how {
            0 => {
                let mut server = self.take_out(at);
                if self.servers.is_empty() {
                    server.drain().await;
                } else {
                    tokio::join!(server.drain(), self.act());
                }
                return self.replace(server).await;
            }
            1 => {}
            2 if self.servers.len() > 1 => return self.freeze(at).await,
            _ => {
                let store = self.servers[at].store.clone();
                store.set("commit", [Mood::Hangs, Mood::HangsAfter][how % 2]);
                let mut held = self.parts.calls.held.subscribe();
                tokio::select! {
                    biased;
                    () = store.holds("commit") => {}
                    held = held.wait_for(|held| *held > 0) => drop(held.unwrap()),
                    () = self.quiet() => {}
                }
            }
        }
        let server = self.take_out(at);
        server.die();
        self.replace(server).await;
    }

    /// A process dies while it answers a request, which is sent again to another one.
    pub async fn tear(&mut self) {
        let (tenant, thread) = (self.dice.pick(2), ["a", "b", "c"][self.dice.pick(3)]);
        let prepared = if self.dice.one_in(2) { Some(self.query(tenant, thread)) } else { self.answer(tenant).await };
        let Some((mut ask, purpose)) = prepared else { return };
        self.queries += 1;
        ask.headers.retain(|(name, _)| *name != "idempotency-key");
        let ask = ask.header("idempotency-key", format!("torn{}", self.queries));
        let purpose = match purpose {
            Purpose::Answer { is_stale: true, .. } => return,
            Purpose::Any | Purpose::Keyed(_) => Purpose::Keyed(Sent { ask: ask.clone(), run: String::new() }),
            other => other,
        };
        let at = self.dice.pick(self.servers.len());
        let server = self.take_out(at);
        self.note(format!("torn at {}", server.at));
        server.store.set("commit", [Mood::Hangs, Mood::HangsAfter][self.dice.pick(2)]);
        let said = tokio::select! {
            said = server.send(ask.clone()) => Some(said),
            () = server.store.holds("commit") => None,
        };
        server.die();
        self.replace(server).await;
        match said {
            Some(said) => self.heard(ask, purpose, &said).await,
            None => self.send_one(ask, purpose).await,
        }
    }

    /// The others take over what a process had that is without the store for a while.
    async fn freeze(&mut self, at: usize) {
        let server = self.take_out(at);
        server.freeze();
        self.expire(&server).await;
        for _ in 0..1 + self.dice.pick(3) {
            self.act().await;
        }
        server.thaw().await;
        self.note(format!("{} goes on", server.at));
        self.servers.push(server);
        self.open_doors();
    }

    /// Another process under the same name begins now or later. `gone` counts against no thread: that has tests of its own.
    async fn replace(&mut self, gone: Server) {
        if self.servers.is_empty() || self.dice.one_in(2) {
            self.start(gone.at).await;
        } else {
            self.expire(&gone).await;
            self.down.push(gone.at);
        }
        self.dead.push(gone);
        self.forget_crashes().await;
    }

    /// A process begins that was left out.
    pub async fn start_again(&mut self) {
        if let Some(at) = self.down.pop() {
            self.start(at).await;
            self.forget_crashes().await;
        }
    }

    async fn start(&mut self, at: usize) {
        self.note(format!("{at} starts"));
        self.servers.push(Server::start(&self.parts, at).await);
        self.open_doors();
    }

    /// The lease of this process is over.
    async fn expire(&self, server: &Server) {
        let Some(database) = &self.parts.database else { return };
        let ends = "UPDATE replicas SET alive_until = now() - interval '1 second' WHERE name = $1";
        sqlx::query(ends).bind(name(server.at)).execute(&mut database.connect().await).await.unwrap();
        self.parts.store.end_expired().await.unwrap();
        self.forget_crashes().await;
    }

    async fn forget_crashes(&self) {
        let mut pks = vec![PROCESS_CRASHES];
        for tenant in TENANTS {
            let tenant = self.parts.store.tenant(tenant, 1).await.unwrap();
            pks.extend(self.parts.store.recent_threads(tenant, 0).await.unwrap().into_iter().map(|thread| thread.pk));
        }
        self.parts.store.forget_crashes(&pks).await.unwrap();
    }
}
