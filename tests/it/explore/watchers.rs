//! Clients that follow all threads of a tenant at any process, and reconnect.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use pes::domain::Millis;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::World;
use super::readers::{Doors, Wire, any, connect};
use super::server::{Ask, Door, TENANTS};
use crate::support::http::PATIENCE;

/// A thread that was active within this time is watched by every process, however slow the machine is.
const SURELY_WATCHED: Millis = 30_000;

/// The threads and the open questions of a tenant, by id.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lists {
    threads: BTreeMap<String, Value>,
    questions: BTreeMap<String, Value>,
}

pub struct Watcher {
    tenant: usize,
    lists: watch::Receiver<Lists>,
    reconnect: watch::Sender<()>,
    task: AbortHandle,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    pub fn begin_watchers(&mut self) {
        for (tenant, wire) in (0..TENANTS.len()).zip([Wire::Socket, Wire::Events]) {
            let (lists, receiver) = watch::channel(Lists::default());
            let (reconnect, told) = watch::channel(());
            let doors = self.doors.clone();
            let task = tokio::spawn(async move { watch(&doors, wire, tenant, &lists, told).await }).abort_handle();
            self.watchers.push(Watcher { tenant, lists: receiver, reconnect, task });
        }
    }

    /// They connect anew, at any process.
    pub fn reconnect_watchers(&self) {
        self.watchers.iter().for_each(|watcher| watcher.reconnect.send_replace(()));
    }

    /// Whoever follows the changes has the lists as they are.
    pub async fn check_watchers(&self) {
        // Nobody watches from elsewhere what may have been idle for a minute.
        if self.parts.database.is_some() && self.parts.clock.age() > SURELY_WATCHED {
            self.reconnect_watchers();
        }
        for watcher in &self.watchers {
            let wanted = lists(&self.server().door, watcher.tenant).await.expect("the process runs");
            let mut seen = watcher.lists.clone();
            let is_late = timeout(PATIENCE, seen.wait_for(|seen| *seen == wanted)).await.is_err();
            let seen = watcher.lists.borrow();
            assert!(!is_late, "a watcher of {} has {seen:#?} instead of {wanted:#?}", TENANTS[watcher.tenant]);
        }
    }
}

async fn lists(door: &Door, tenant: usize) -> Option<Lists> {
    let threads = list(door, tenant, "/threads?limit=100", "threadId").await?;
    Some(Lists { threads, questions: list(door, tenant, "/suspensions?limit=100", "suspensionId").await? })
}

/// `None`: the process does not answer.
async fn list(door: &Door, tenant: usize, path: &str, id: &str) -> Option<BTreeMap<String, Value>> {
    let said = door.ask(Ask::get(tenant, path)).await;
    let items = (said.status == 200).then(|| said.json()["items"].as_array().unwrap().clone())?;
    Some(items.into_iter().map(|item| (item[id].as_str().unwrap().to_owned(), without_url(item))).collect())
}

/// Each process has an address of its own.
fn without_url(mut shown: Value) -> Value {
    shown.as_object_mut().unwrap().remove("url");
    shown
}

/// Watches for ever.
async fn watch(doors: &Doors, wire: Wire, tenant: usize, seen: &watch::Sender<Lists>, mut told: watch::Receiver<()>) {
    loop {
        let door = any(doors).await;
        let watching = async {
            let Some(mut frames) = connect(&door, wire, tenant, "/events").await else {
                tokio::task::yield_now().await;
                return;
            };
            while let Some((event, data)) = frames.next().await {
                if matches!(event.as_str(), "caught_up" | "gap") {
                    let Some(lists) = lists(&door, tenant).await else { return };
                    seen.send_replace(lists);
                } else {
                    seen.send_modify(|seen| seen.take(&event, data));
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = door.gone.cancelled() => {}
            changed = told.changed() => if changed.is_err() { return },
        }
    }
}

impl Lists {
    fn take(&mut self, event: &str, data: Value) {
        let data = without_url(data);
        let text = |member: &str| data[member].as_str().unwrap().to_owned();
        match event {
            "thread" => _ = self.threads.insert(text("threadId"), data),
            "thread_deleted" => {
                self.threads.remove(&text("threadId"));
                self.questions.retain(|_, asked| asked["threadId"] != data["threadId"]);
            }
            "suspension" if data["status"] == "pending" => {
                self.questions.insert(text("suspensionId"), data);
            }
            "suspension" => _ = self.questions.remove(&text("suspensionId")),
            _ => {}
        }
    }
}
