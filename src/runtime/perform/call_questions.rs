//! Questions of running tools to people. A question goes to the thread's task, which commits it before anybody sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use crate::domain::hitl::{Question, Reply};
use crate::domain::ids::{CallId, ThreadPk};
use crate::domain::tool::{CallCode, ToolError};
use crate::engine::event::{Event, ToolEvent};
use crate::runtime::lease::Lease;
use crate::runtime::shared::Shared;
use crate::tool::{People, answer};

/// Bounds the questions of one attempt. Further ones are declined.
const MAX_QUESTIONS: u32 = 20;
const MAX_MESSAGE_CHARS: usize = 4_000;
const MAX_FORM_BYTES: usize = 32 << 10;

/// A question of a running call, sent to the thread's task.
pub(in crate::runtime) struct CallQuestion {
    pub(in crate::runtime) call: CallId,
    pub(in crate::runtime) attempt: u32,
    pub(in crate::runtime) number: u32,
    question: Question,
    pub(in crate::runtime) reply: oneshot::Sender<Reply>,
}

impl CallQuestion {
    pub(in crate::runtime) fn event(&self) -> Event {
        Event::Tool(ToolEvent::Asked {
            call: self.call.clone(),
            attempt: self.attempt,
            number: self.number,
            question: Box::new(self.question.clone()),
        })
    }
}

/// What a running call tells the thread's task.
pub(in crate::runtime) enum CallMessage {
    Asked(CallQuestion),
    /// The call no longer waits for the answer to its question of this number.
    Withdrew {
        call: CallId,
        attempt: u32,
        number: u32,
    },
}

/// The questions of one attempt of a call, one at a time.
pub(super) struct QuestionsOfCall {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Lease,
    pub(super) pk: ThreadPk,
    pub(super) call: CallId,
    pub(super) attempt: u32,
    pub(super) messages: mpsc::Sender<CallMessage>,
    /// Whether a person is asked at this moment.
    pub(super) is_asking: watch::Sender<bool>,
    pub(super) asked: Mutex<u32>,
}

impl QuestionsOfCall {
    async fn accepted(&self, value: Value) -> Result<Reply, ToolError> {
        match self.shared.inlined_under(&self.lease, self.pk, &value).await {
            Some(Ok(value)) => Ok(Reply::Accepted { value }),
            // The lease ended, and the call is dropped with it.
            None => Ok(Reply::Cancelled),
            Some(Err(error)) => Err(ToolError::new(CallCode::Failed, format!("The answer could not be read: {error}"))),
        }
    }
}

#[async_trait]
impl People for QuestionsOfCall {
    async fn ask(&self, question: Question) -> Result<Reply, ToolError> {
        // A second question is declined: questions that waited for a person would fill the memory.
        let Ok(mut asked) = self.asked.try_lock() else {
            return Ok(Reply::Declined);
        };
        answer::check_form(&question.form)?;
        let form = serde_json::to_string(&question.form).map_or(0, |form| form.len());
        if form > MAX_FORM_BYTES {
            let message = format!("The question's form has {form} bytes; at most {MAX_FORM_BYTES} are shown.");
            return Err(ToolError::new(CallCode::InvalidArguments, message));
        }
        if *asked == MAX_QUESTIONS {
            return Ok(Reply::Declined);
        }
        *asked += 1;
        let message = question.message.chars().take(MAX_MESSAGE_CHARS).collect();
        let question = Question { message, ..question };
        let (reply, replied) = oneshot::channel();
        let (call, attempt, number) = (self.call.clone(), self.attempt, *asked);
        let _asking = AskingGuard::begin(&self.is_asking);
        // If nobody receives it, the reply channel is dropped with it.
        let question = CallQuestion { call, attempt, number, question, reply };
        self.messages.send(CallMessage::Asked(question)).await.ok();
        match replied.await {
            Ok(Reply::Accepted { value }) => self.accepted(value).await,
            Ok(Reply::Declined) => Ok(Reply::Declined),
            Ok(Reply::Cancelled) | Err(_) => Ok(Reply::Cancelled),
        }
    }

    async fn withdraw(&self) {
        let (call, attempt, number) = (self.call.clone(), self.attempt, *self.asked.lock().await);
        self.messages.send(CallMessage::Withdrew { call, attempt, number }).await.ok();
    }
}

impl fmt::Debug for QuestionsOfCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuestionsOfCall")
            .field("call", &self.call)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Keeps `is_asking` true until it is dropped.
struct AskingGuard<'a>(&'a watch::Sender<bool>);

impl<'a> AskingGuard<'a> {
    fn begin(is_asking: &'a watch::Sender<bool>) -> Self {
        is_asking.send_replace(true);
        Self(is_asking)
    }
}

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}
