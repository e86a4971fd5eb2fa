//! One attempt of one tool call, bounded in time and size. A panic becomes an error of the call.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::call_questions::{CallMessage, QuestionsOfCall};
use super::tool_failed;
use crate::domain::digest;
use crate::domain::frame::ToolStarted;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::settings::RunSettings;
use crate::domain::tool::{CallCode, Executed, Proposal, ToolClass, ToolError, ToolOutcome};
use crate::engine::event::{Event, ToolEvent};
use crate::engine::{Invocation, Toolbox};
use crate::failpoint;
use crate::runtime::lease::Lease;
use crate::runtime::shared::Shared;
use crate::tool::{self, Nature, ToolContext};

pub(in crate::runtime) struct ToolAttempt {
    pub(in crate::runtime) shared: Arc<Shared>,
    pub(in crate::runtime) pk: ThreadPk,
    pub(in crate::runtime) tenant: TenantPk,
    pub(in crate::runtime) thread_id: ThreadId,
    pub(in crate::runtime) invocation: Invocation,
    pub(in crate::runtime) attempt: u32,
    pub(in crate::runtime) lease: Lease,
    pub(in crate::runtime) messages: mpsc::Sender<CallMessage>,
}

/// How the future of an attempt ended.
enum AttemptEnd<T> {
    Returned(T),
    TimedOut,
    /// The server stopped while a person was asked.
    Stopped,
}

impl ToolAttempt {
    /// `None`: the lease ended before the tool was called.
    pub(in crate::runtime) async fn perform(self) -> Option<Event> {
        failpoint::reached("tool.before");
        let began = Instant::now();
        let mut outcome = self.outcome().await?;
        outcome.duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        failpoint::reached("tool.returned");
        Some(Event::Tool(ToolEvent::Returned {
            call: self.invocation.call_id,
            attempt: self.attempt,
            outcome: Box::new(outcome),
        }))
    }

    async fn outcome(&self) -> Option<ToolOutcome> {
        let tools = self.shared.tools.toolset(self.tenant).await;
        let Some(tool) = tools.get(&self.invocation.tool_name) else {
            let message = match tools.why_off(&self.invocation.tool_name) {
                Some(why) => format!("The tool is off by now: {why}."),
                None => "This server no longer has this tool.".to_owned(),
            };
            return Some(tool_failed(CallCode::UnknownTool, message));
        };
        let (is_asking, asking) = watch::channel(false);
        let inlined = self.shared.inlined_under(&self.lease, self.pk, &self.invocation.arguments).await?;
        let arguments = match inlined {
            Ok(arguments) => arguments,
            Err(error) => {
                return Some(tool_failed(CallCode::Failed, format!("What the call needs could not be read: {error}")));
            }
        };
        let approved = self.invocation.digest.as_ref();
        let given = approved.map(|_| digest::of_call(&self.invocation.tool_name, &arguments));
        if given.as_ref() != approved {
            const WHY: &str = "The arguments are not those that were approved; nothing was done.";
            return Some(tool_failed(CallCode::ApprovalMismatch, WHY));
        }
        let (settings, name) = (self.invocation.judged_before.as_deref(), &self.invocation.tool_name);
        if let Some(error) = self.shared.denial_by_now(self.tenant, &self.thread_id, settings, name, &arguments).await {
            // An earlier attempt may have had its effect.
            let made = if self.attempt == 1 { "Nothing was done." } else { "It was not made again." };
            let message = format!("{} {made}", error.message);
            return Some(ToolOutcome::failed(ToolError { message, ..error }));
        }
        if !self.lease.is_valid() {
            return None;
        }
        self.shared.hub.publish_tool_started(self.pk, || self.started_frame());
        let limit = Duration::from_millis(u64::try_from(tool.spec().timeout_ms).unwrap_or(0));
        let nature = tool.nature(&arguments);
        let executed = given.map(|digest| Executed { digest, at: self.shared.now() });
        let call = AssertUnwindSafe(tool.call(arguments, self.context(is_asking))).catch_unwind();
        let ended = self.run_within(limit, asking, call).await;
        failpoint::reached("tool.sent");
        let outcome = match ended {
            AttemptEnd::Returned(Ok(answer)) => {
                tools.outcome(&self.invocation.tool_name, answer, self.shared.config.limits.tool_output_bytes)
            }
            AttemptEnd::Returned(Err(panic)) => ToolOutcome::failed(tool::panic_error(&*panic)),
            AttemptEnd::TimedOut => timed_out(nature, limit),
            AttemptEnd::Stopped => {
                ToolOutcome::failed(ToolError::lost("The server stopped while the call asked a person.".to_owned()))
            }
        };
        Some(ToolOutcome { executed, ..outcome })
    }

    fn started_frame(&self) -> ToolStarted {
        ToolStarted {
            thread_id: self.thread_id.clone(),
            run_id: self.invocation.run_id.clone(),
            parent_id: self.invocation.item_id.clone(),
            call_id: self.invocation.call_id.clone(),
            tool_name: self.invocation.tool_name.clone(),
            attempt: self.attempt,
            policy: self.invocation.policy.clone(),
            digest: self.invocation.digest.clone(),
            timestamp: self.shared.now(),
        }
    }

    /// Runs the call within its time limit, which does not count while a person is asked. A server that stops does not wait for
    /// people.
    async fn run_within<T>(
        &self,
        limit: Duration,
        mut asking: watch::Receiver<bool>,
        call: impl Future<Output = T>,
    ) -> AttemptEnd<T> {
        let (mut call, mut left) = (std::pin::pin!(call), limit);
        loop {
            let (began, is_asking) = (Instant::now(), *asking.borrow_and_update());
            tokio::select! {
                biased;
                ended = &mut call => return AttemptEnd::Returned(ended),
                () = sleep(left), if !is_asking => return AttemptEnd::TimedOut,
                () = self.shared.stop.draining.cancelled(), if is_asking => return AttemptEnd::Stopped,
                Ok(()) = asking.changed() => {
                    if !is_asking {
                        left = left.saturating_sub(began.elapsed());
                    }
                }
            }
        }
    }

    /// The context at the start of the call.
    fn context(&self, is_asking: watch::Sender<bool>) -> ToolContext {
        let invocation = &self.invocation;
        let people = QuestionsOfCall {
            shared: self.shared.clone(),
            lease: self.lease.clone(),
            pk: self.pk,
            call: invocation.call_id.clone(),
            attempt: self.attempt,
            messages: self.messages.clone(),
            is_asking,
            asked: Mutex::default(),
        };
        ToolContext {
            tenant: self.tenant,
            thread_id: self.thread_id.clone(),
            run_id: invocation.run_id.clone(),
            item_id: invocation.item_id.clone(),
            call_id: invocation.call_id.clone(),
            user_id: invocation.user_id.clone(),
            trace: invocation.trace.clone(),
            idempotency_key: invocation.idempotency_key.clone(),
            agent_state: invocation.agent_state.clone(),
            now: self.shared.clock.wall(),
            people: Arc::new(people),
        }
    }
}

impl Shared {
    /// Why the policy denies a call that it did not deny when it was proposed: the rules have changed. `None`: it does not, or
    /// there are no `settings`, because it has just decided.
    pub(super) async fn denial_by_now(
        &self,
        tenant: TenantPk,
        thread: &ThreadId,
        settings: Option<&RunSettings>,
        tool: &str,
        arguments: &Value,
    ) -> Option<ToolError> {
        let call = Proposal { thread, settings: settings?, tool, arguments };
        self.tools.toolset(tenant).await.denial(&call)
    }
}

/// A call that may have had its effect is in doubt, as after a broken connection.
fn timed_out(nature: Nature, limit: Duration) -> ToolOutcome {
    let message = format!("The tool did not end within {} ms.", limit.as_millis());
    match nature.class {
        ToolClass::Read => tool_failed(CallCode::Timeout, message),
        ToolClass::Write | ToolClass::External | ToolClass::Irreversible => {
            ToolOutcome::failed(ToolError::lost(message))
        }
    }
}
