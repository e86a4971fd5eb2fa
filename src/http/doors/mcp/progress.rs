//! How a run goes on, as notifications of the client's own token: the items that are over, of all, and the answer after them.
//! What is told rises with every notification, as the protocol wants it.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::call::Asker;
use crate::domain::facts::{ItemStatusChangeBody, WholePlan, WholePlanUpdate};
use crate::domain::ids::{ItemId, RunId, ThreadId};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};
use crate::service::plan;

/// How often a client is told that work goes on though nothing has changed.
const BEAT: Duration = Duration::from_secs(10);
/// By how much the progress rises then.
const LITTLE: f64 = 0.001;

/// The progress of one run.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    token: Value,
    run: RunId,
    items: Vec<(ItemId, String, ItemStatus)>,
    /// What is worked on.
    now: String,
    told: Option<f64>,
}

impl Progress {
    const HEARD: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];

    pub(super) fn new(token: Value, run: RunId) -> Self {
        Self { token, run, items: Vec::new(), now: "Planning".to_owned(), told: None }
    }

    /// The plan is this now. It may hold items that earlier runs settled.
    pub(super) fn plan(&mut self, items: &[TodoItem]) {
        let is_own = |item: &&TodoItem| !item.status.is_settled() || item.run_id.as_ref() == Some(&self.run);
        let known = |item: &TodoItem| (item.id.clone(), item.description.clone(), item.status);
        self.items = items.iter().filter(is_own).map(known).collect();
        if let Some((_, description, _)) = self.items.iter().find(|(_, _, status)| *status == ItemStatus::InProgress) {
            self.now.clone_from(description);
        }
    }

    pub(super) fn item(&mut self, id: &ItemId, status: ItemStatus) {
        let Some((_, description, stands)) = self.items.iter_mut().find(|(known, _, _)| known == id) else { return };
        *stands = status;
        self.now.clone_from(description);
    }

    /// The next notification.
    pub(super) fn tell(&mut self) -> Value {
        let over = self.items.iter().filter(|(_, _, status)| status.is_settled()).count();
        let over = f64::from(u32::try_from(over).unwrap_or(u32::MAX));
        let progress = self.told.map_or(over, |told| over.max(((told + LITTLE) * 1000.0).round() / 1000.0));
        self.told = Some(progress);
        let mut params = json!({ "progressToken": self.token, "progress": progress, "message": self.now });
        if !self.items.is_empty() {
            params["total"] = json!(self.items.len() + 1);
        }
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    }

    /// Whether the observation changes what is told.
    fn hear(&mut self, observation: &Observation) -> serde_json::Result<bool> {
        let content = &observation.content;
        if observation.run_id != self.run {
            return Ok(false);
        }
        if observation.kind == ObservationType::Plan {
            self.plan(&WholePlan::deserialize(content)?.todo_list);
        } else if observation.kind == ObservationType::PlanUpdate {
            self.plan(&WholePlanUpdate::deserialize(content)?.todo_list);
        } else if observation.kind == ObservationType::ItemStatusChange {
            let change = ItemStatusChangeBody::deserialize(content)?;
            self.item(&change.item_id, change.status);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// A run's progress while somebody listens.
pub(super) struct Telling {
    progress: Progress,
    /// `None`: the run is over.
    feed: Option<Feed>,
    beat: Interval,
    ready: VecDeque<Value>,
}

impl Telling {
    /// Listens first and looks then, so that nothing is missed. `None`: it cannot be listened to, which costs nobody the result.
    pub(super) async fn begin(asker: &Asker, token: &Value, run: &RunId, thread: &ThreadId) -> Option<Self> {
        let (service, caller) = (&asker.app.service, &asker.caller);
        let types = Progress::HEARD.to_vec();
        let ask = FeedAsk { after: After::Latest, types, until: Some(run.clone()), ..FeedAsk::default() };
        let feed = feed::open(service, caller, thread, ask).await.ok()?;
        let mut progress = Progress::new(token.clone(), run.clone());
        progress.plan(&plan::items(service, caller, thread).await.ok()?);
        let mut beat = interval_at(Instant::now() + BEAT, BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ready = VecDeque::from([progress.tell()]);
        Some(Self { progress, feed: Some(feed), beat, ready })
    }

    /// The next notification. Cancel safe.
    pub(super) async fn next(&mut self) -> Value {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return told;
            }
            let frame = async {
                match &mut self.feed {
                    Some(feed) => feed.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                frame = frame => match frame {
                    Some(frame) => self.heard(&frame),
                    None => self.feed = None,
                },
                _ = self.beat.tick() => return self.progress.tell(),
            }
        }
    }

    fn heard(&mut self, frame: &Encoded) {
        let EncodedKind::Observation { seq, .. } = frame.kind else { return };
        let observation = serde_json::from_slice::<Observation>(&frame.data());
        match observation.and_then(|observation| self.progress.hear(&observation)) {
            Ok(true) => self.ready.push_back(self.progress.tell()),
            Ok(false) => {}
            Err(error) => tracing::warn!(seq, %error, "a progress is told without it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::doors::recorded;

    fn items(statuses: &[(&str, ItemStatus)]) -> Vec<TodoItem> {
        let item = |(id, status): &(&str, ItemStatus)| {
            let new = TodoItem::new((*id).into(), format!("Do {id}"), 0);
            TodoItem { status: *status, ..new }
        };
        statuses.iter().map(item).collect()
    }

    fn told(progress: &mut Progress) -> (f64, Option<u64>, String) {
        let said = progress.tell();
        assert_eq!(said["params"]["progressToken"], "t");
        let params = &said["params"];
        let message = params["message"].as_str().unwrap().to_owned();
        (params["progress"].as_f64().unwrap(), params["total"].as_u64(), message)
    }

    #[test]
    fn it_rises_with_every_word_and_with_the_items() {
        let mut progress = Progress::new(json!("t"), "run_1".into());
        assert_eq!(told(&mut progress), (0.0, None, "Planning".to_owned()));
        assert_eq!(told(&mut progress), (0.001, None, "Planning".to_owned()));
        progress.plan(&items(&[
            ("a", ItemStatus::Pending),
            ("b", ItemStatus::Pending),
            ("old", ItemStatus::Completed),
        ]));
        assert_eq!(told(&mut progress), (0.002, Some(3), "Planning".to_owned()), "what is over is of another run");
        progress.item(&"a".into(), ItemStatus::InProgress);
        assert_eq!(told(&mut progress), (0.003, Some(3), "Do a".to_owned()));
        progress.item(&"a".into(), ItemStatus::Failed);
        assert_eq!(told(&mut progress), (1.0, Some(3), "Do a".to_owned()));
        progress.item(&"unknown".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress), (1.001, Some(3), "Do a".to_owned()));
        progress.item(&"b".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress), (2.0, Some(3), "Do b".to_owned()));
    }

    /// An item that is done again counts less; what was told does not fall.
    #[test]
    fn it_never_falls() {
        let mut progress = Progress::new(json!("t"), "run_1".into());
        progress.plan(&items(&[("a", ItemStatus::Pending)]));
        progress.item(&"a".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress).0, 1.0);
        progress.item(&"a".into(), ItemStatus::InProgress);
        assert_eq!(told(&mut progress).0, 1.001);
    }

    #[test]
    fn what_becomes_of_another_run_is_not_told() {
        let log = recorded::log("demo");
        let of = log.iter().find(|seen| seen.kind == ObservationType::ItemStatusChange).expect("an item begins");
        let mut own = Progress::new(json!("t"), of.run_id.clone());
        assert!(own.hear(of).unwrap());
        let mut other = Progress::new(json!("t"), "run_of_somebody_else".into());
        assert!(!other.hear(of).unwrap());
    }
}
