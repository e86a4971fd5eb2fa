//! A run's progress as notifications with the client's token: the number of settled items out of all, where the answer
//! counts as one more. The protocol requires that the value rises with every notification.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Interval;

use super::call::McpRequest;
use crate::domain::facts::Fact;
use crate::domain::ids::{ItemId, RunId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::http::doors::frames::{DecodedObservation, ObservationContent, RunFrame};
use crate::http::events::delayed_interval;
use crate::live::Encoded;
use crate::service::feed::{self, After, Feed, FeedAsk};
use crate::service::plan;

/// How often a notification is sent while nothing changes.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// By how much the progress rises in such a notification.
const HEARTBEAT_STEP: f64 = 0.001;

/// The progress of one run.
#[derive(Clone, Debug)]
pub(super) struct RunProgress {
    token: Value,
    run: RunId,
    items: Vec<ProgressItem>,
    /// The description of the current item.
    now: String,
    last_sent: Option<f64>,
}

#[derive(Clone, Debug)]
struct ProgressItem {
    id: ItemId,
    description: String,
    status: ItemStatus,
}

impl RunProgress {
    const OBSERVATION_TYPES: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];

    pub(super) fn new(token: Value, run: RunId) -> Self {
        Self { token, run, items: Vec::new(), now: "Planning".to_owned(), last_sent: None }
    }

    /// Replaces the plan. It may contain items that earlier runs settled.
    pub(super) fn set_plan(&mut self, items: &[TodoItem]) {
        let is_own = |item: &&TodoItem| !item.status.is_settled() || item.run_id.as_ref() == Some(&self.run);
        let known = |item: &TodoItem| ProgressItem {
            id: item.id.clone(),
            description: item.description.clone(),
            status: item.status,
        };
        self.items = items.iter().filter(is_own).map(known).collect();
        if let Some(current) = self.items.iter().find(|item| item.status == ItemStatus::InProgress) {
            self.now.clone_from(&current.description);
        }
    }

    pub(super) fn set_item_status(&mut self, id: &ItemId, status: ItemStatus) {
        let Some(item) = self.items.iter_mut().find(|item| item.id == *id) else { return };
        item.status = status;
        self.now.clone_from(&item.description);
    }

    /// The next notification.
    pub(super) fn next_notification(&mut self) -> Value {
        let over = self.items.iter().filter(|item| item.status.is_settled()).count();
        let over = f64::from(u32::try_from(over).unwrap_or(u32::MAX));
        let progress =
            self.last_sent.map_or(over, |last| over.max(((last + HEARTBEAT_STEP) * 1000.0).round() / 1000.0));
        self.last_sent = Some(progress);
        let mut params = json!({ "progressToken": self.token, "progress": progress, "message": self.now });
        if !self.items.is_empty() {
            params["total"] = json!(self.items.len() + 1);
        }
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    }

    /// Applies an observation. Returns whether it changes the progress.
    fn apply(&mut self, observation: &DecodedObservation) -> bool {
        if observation.run != self.run {
            return false;
        }
        match &observation.content {
            ObservationContent::Plan(plan) => self.set_plan(&plan.todo_list),
            ObservationContent::PlanUpdate(update) => self.set_plan(&update.todo_list),
            ObservationContent::Fact(Fact::ItemStatusChange(change)) => {
                self.set_item_status(&change.item_id, change.status)
            }
            ObservationContent::Fact(_) => return false,
        }
        true
    }
}

/// A stream of progress notifications.
pub(super) struct ProgressStream {
    progress: RunProgress,
    /// `None`: the run is over.
    feed: Option<Feed>,
    heartbeat: Interval,
    ready: VecDeque<Value>,
}

impl ProgressStream {
    /// Subscribes before it reads the plan, so that nothing is missed. `None` if the subscription fails, which does not
    /// affect the call's result.
    pub(super) async fn begin(ctx: &McpRequest, token: &Value, run: &RunId, thread: &ThreadId) -> Option<Self> {
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        let types = RunProgress::OBSERVATION_TYPES.to_vec();
        let ask = FeedAsk { after: After::Latest, types, until: Some(run.clone()), ..FeedAsk::default() };
        let feed = feed::open(service, caller, thread, ask).await.ok()?;
        let mut progress = RunProgress::new(token.clone(), run.clone());
        progress.set_plan(&plan::items(service, caller, thread).await.ok()?);
        let heartbeat = delayed_interval(HEARTBEAT_INTERVAL);
        let ready = VecDeque::from([progress.next_notification()]);
        Some(Self { progress, feed: Some(feed), heartbeat, ready })
    }

    /// The next notification. Cancel safe.
    pub(super) async fn next(&mut self) -> Value {
        loop {
            if let Some(notification) = self.ready.pop_front() {
                return notification;
            }
            let frame = async {
                match &mut self.feed {
                    Some(feed) => feed.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                frame = frame => match frame {
                    Some(frame) => self.handle_frame(&frame),
                    None => self.feed = None,
                },
                _ = self.heartbeat.tick() => return self.progress.next_notification(),
            }
        }
    }

    fn handle_frame(&mut self, frame: &Encoded) {
        if let Some(RunFrame::Observation(observation)) = RunFrame::decode(frame, &self.progress.run)
            && self.progress.apply(&observation)
        {
            self.ready.push_back(self.progress.next_notification());
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

    fn told(progress: &mut RunProgress) -> (f64, Option<u64>, String) {
        let said = progress.next_notification();
        assert_eq!(said["params"]["progressToken"], "t");
        let params = &said["params"];
        let message = params["message"].as_str().unwrap().to_owned();
        (params["progress"].as_f64().unwrap(), params["total"].as_u64(), message)
    }

    #[test]
    fn it_rises_with_every_word_and_with_the_items() {
        let mut progress = RunProgress::new(json!("t"), "run_1".into());
        assert_eq!(told(&mut progress), (0.0, None, "Planning".to_owned()));
        assert_eq!(told(&mut progress), (0.001, None, "Planning".to_owned()));
        progress.set_plan(&items(&[
            ("a", ItemStatus::Pending),
            ("b", ItemStatus::Pending),
            ("old", ItemStatus::Completed),
        ]));
        assert_eq!(told(&mut progress), (0.002, Some(3), "Planning".to_owned()), "what is over is of another run");
        progress.set_item_status(&"a".into(), ItemStatus::InProgress);
        assert_eq!(told(&mut progress), (0.003, Some(3), "Do a".to_owned()));
        progress.set_item_status(&"a".into(), ItemStatus::Failed);
        assert_eq!(told(&mut progress), (1.0, Some(3), "Do a".to_owned()));
        progress.set_item_status(&"unknown".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress), (1.001, Some(3), "Do a".to_owned()));
        progress.set_item_status(&"b".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress), (2.0, Some(3), "Do b".to_owned()));
    }

    /// An item that is redone lowers the count, but the progress that was sent never falls.
    #[test]
    fn it_never_falls() {
        let mut progress = RunProgress::new(json!("t"), "run_1".into());
        progress.set_plan(&items(&[("a", ItemStatus::Pending)]));
        progress.set_item_status(&"a".into(), ItemStatus::Completed);
        assert_eq!(told(&mut progress).0, 1.0);
        progress.set_item_status(&"a".into(), ItemStatus::InProgress);
        assert_eq!(told(&mut progress).0, 1.001);
    }

    #[test]
    fn what_becomes_of_another_run_is_not_told() {
        let log = recorded::log("demo");
        let of = log.iter().find(|seen| seen.kind == ObservationType::ItemStatusChange).expect("an item begins");
        let of = recorded::decode(of);
        let mut own = RunProgress::new(json!("t"), of.run.clone());
        assert!(own.apply(&of));
        let mut other = RunProgress::new(json!("t"), "run_of_somebody_else".into());
        assert!(!other.apply(&of));
    }
}
