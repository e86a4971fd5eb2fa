//! One attempt of one model call. Its tokens go to the hub as they arrive, the whole reply goes to the engine.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reply::ReplyBuilder;
use crate::config::ModelRef;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::ids::{StreamId, TenantPk, ThreadPk};
use crate::domain::model::{Delta, FailureKind, ModelFailure, ModelReply, ModelRequest, Phase};
use crate::domain::prompt;
use crate::domain::tokens;
use crate::domain::tool::ToolSpec;
use crate::engine::TagFilter;
use crate::engine::event::{Event, ModelEvent};
use crate::failpoint;
use crate::live::{Channel, Hub, StreamHead, StreamPublisher};
use crate::poll_gate::PollGate;
use crate::provider::DeltaStream;
use crate::runtime::lease::Lease;
use crate::runtime::shared::Shared;

pub(in crate::runtime) struct ModelAttempt {
    pub(in crate::runtime) shared: Arc<Shared>,
    pub(in crate::runtime) pk: ThreadPk,
    pub(in crate::runtime) tenant: TenantPk,
    pub(in crate::runtime) stream: StreamId,
    pub(in crate::runtime) attempt: u32,
    pub(in crate::runtime) request: ModelRequest,
    pub(in crate::runtime) head: StreamHead,
    pub(in crate::runtime) lease: Lease,
    /// Ends the call, which then reports its usage so far, if it was sent.
    pub(in crate::runtime) interrupt: CancellationToken,
}

impl ModelAttempt {
    /// `None`: the lease ended before the request was sent.
    pub(in crate::runtime) async fn perform(self) -> Option<Event> {
        let (phase, began, stream, attempt) = (self.head.phase, Instant::now(), self.stream.clone(), self.attempt);
        let meters = self.shared.models.meters.of(&self.request.provider, &self.request.model);
        let answered = self.call().await?;
        let (failure, first_token) = match &answered {
            Ok(reply) => (reply.is_refusal().then_some(FailureKind::Refused), reply.time_to_first_token_ms),
            Err(failure) => (Some(failure.kind), None),
        };
        meters.duration.record(began.elapsed().as_secs_f64());
        if let Some(first) = first_token {
            meters.first_token.record(first as f64 / 1000.0);
        }
        meters.count_call(phase, failure);
        Some(Event::Model(match answered {
            Ok(reply) => ModelEvent::Replied { stream, attempt, reply },
            Err(failure) => ModelEvent::Failed { stream, attempt, failure },
        }))
    }

    /// The reply, or why there is none. `None`: the lease ended before the request was sent.
    async fn call(self) -> Option<Result<Box<ModelReply>, ModelFailure>> {
        failpoint::reached("model.before");
        let Self { shared, pk, tenant, request, head, lease, interrupt, .. } = self;
        let began = Instant::now();
        let model = ModelRef { provider: request.provider.clone(), model: request.model.clone() };
        let (fit, prompt_digest) = (request.context.fit, Some(prompt::digest(&request.messages)));
        let client = match shared.models.client(tenant, &model.provider) {
            Ok(client) => client,
            Err(fault) => {
                let failure = ModelFailure::new(FailureKind::Refused, fault.detail);
                return Some(Err(ModelFailure { is_ours: true, ..failure }));
            }
        };
        let (gates, owner) = (&shared.models.gates, shared.models.call_owner(tenant, &model.provider));
        let enter = async {
            if request.context.has_other {
                gates.acquire_soon(&model.provider, owner).await
            } else {
                gates.acquire(&model.provider, owner).await
            }
        };
        let entered = interrupt.run_until_cancelled(enter).await;
        let queued_ms = i64::try_from(began.elapsed().as_millis()).ok().filter(|waited| *waited > 0);
        let failed = |failure| Some(Err(ModelFailure { queued_ms: queued_ms.unwrap_or(0), ..failure }));
        let pass = match entered.unwrap_or_else(|| Err(interrupted())) {
            Ok(pass) => pass,
            Err(failure) => return failed(failure),
        };
        if !lease.is_valid() {
            return None;
        }
        let prompt_size = PromptSize::of(&request);
        let reply = ReplyBuilder::new(began, shared.config.models.reply_bytes);
        let opened = interrupt.run_until_cancelled(pass.call(&*client, request)).await;
        let deltas = match opened.unwrap_or_else(|| Err(interrupted())) {
            Ok(deltas) => deltas,
            // The request may have been sent, so its prompt must be paid.
            Err(failure) if is_unanswered(&failure) => {
                let usage = Some(reply.usage_so_far(prompt_size.tokens()));
                return failed(ModelFailure { usage, ..failure });
            }
            Err(failure) => return failed(failure),
        };
        let mut tokens = TokenStream::open(&shared.hub, pk, head);
        let answered = read_reply(deltas, &interrupt, reply, &mut tokens, &prompt_size, model).await;
        failpoint::reached("model.replied");
        match answered {
            Ok(reply) => {
                // Replay blocks that are nested too deep could not be read back from the store.
                let replay = reply.replay.filter(|blocks| !exceeds(blocks, MOST_DEPTH));
                Some(Ok(Box::new(ModelReply { fit, replay, queued_ms, prompt_digest, ..reply })))
            }
            Err(failure) => failed(failure),
        }
    }
}

/// The size of a prompt.
struct PromptSize {
    /// Estimated tokens of the messages.
    messages: u64,
    tools: Vec<Arc<ToolSpec>>,
}

impl PromptSize {
    fn of(request: &ModelRequest) -> Self {
        Self { messages: tokens::of_prompt(&request.messages, &[]), tools: request.tools.clone() }
    }

    /// The estimated number of tokens.
    fn tokens(&self) -> u64 {
        self.messages + tokens::of_prompt(&[], &self.tools)
    }
}

async fn read_reply(
    mut deltas: DeltaStream,
    interrupt: &CancellationToken,
    mut reply: ReplyBuilder,
    tokens: &mut TokenStream,
    prompt_size: &PromptSize,
    model: ModelRef,
) -> Result<ModelReply, ModelFailure> {
    let (gate, mut ends) = (PollGate::new(), pin!(interrupt.cancelled()));
    loop {
        let next = poll_fn(|context| match deltas.poll_next_unpin(context) {
            arrived @ Poll::Ready(_) => arrived,
            Poll::Pending => {
                gate.poll(context, |context| ends.as_mut().poll(context)).map(|()| Some(Err(interrupted())))
            }
        })
        .await;
        let delta = match next {
            Some(Ok(delta)) => delta,
            Some(Err(failure)) => return Err(broken_off(failure, &reply, tokens, prompt_size)),
            None => break,
        };
        tokens.publish(&delta);
        if reply.take(delta).is_err() {
            let message = format!("the reply is larger than {} bytes", reply.max_bytes());
            return Err(broken_off(ModelFailure::new(FailureKind::TooLarge, message), &reply, tokens, prompt_size));
        }
    }
    tokens.flush();
    reply.estimate_missing_usage(|| prompt_size.tokens());
    reply.finish(model).map_err(|reply| {
        let incomplete = ModelFailure::new(FailureKind::Incomplete, "The reply ended without saying why.");
        broken_off(incomplete, &reply, tokens, prompt_size)
    })
}

fn interrupted() -> ModelFailure {
    ModelFailure::new(FailureKind::Interrupted, "the run or the server was stopped")
}

/// Whether a call that failed before its reply may have been sent and was not answered: it was interrupted, its connection
/// broke, or it took too long. An answer with an error is free.
fn is_unanswered(failure: &ModelFailure) -> bool {
    failure.http_status.is_none()
        && matches!(failure.kind, FailureKind::Retry | FailureKind::Incomplete | FailureKind::Interrupted)
}

/// The failure of a reply that broke off, with the text and the usage so far. An error instead of a reply has no usage.
fn broken_off(
    failure: ModelFailure,
    reply: &ReplyBuilder,
    tokens: &TokenStream,
    prompt_size: &PromptSize,
) -> ModelFailure {
    let has_begun = reply.has_begun() || matches!(failure.kind, FailureKind::Incomplete | FailureKind::Interrupted);
    let usage = has_begun.then(|| reply.usage_so_far(prompt_size.tokens()));
    ModelFailure { partial_text: tokens.publisher.text(Channel::Response), usage, ..failure }
}

/// The open stream of a reply.
struct TokenStream {
    publisher: StreamPublisher,
    /// Removes the tags around the content of a synthesis.
    tags: Option<TagFilter>,
}

impl TokenStream {
    fn open(hub: &Arc<Hub>, pk: ThreadPk, head: StreamHead) -> Self {
        let tags = (head.phase == Phase::Synthesis).then(TagFilter::default);
        Self { publisher: hub.open_stream(pk, head), tags }
    }

    fn publish(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) => match &mut self.tags {
                Some(tags) => self.publisher.publish(Channel::Response, &tags.push(piece)),
                None => self.publisher.publish(Channel::Response, piece),
            },
            Delta::Thinking(piece) => self.publisher.publish(Channel::Thinking, piece),
            // The end of the stream corrects what was published. Tags in that text are none of the answer's.
            Delta::WasThinking => {
                if self.tags.is_some() {
                    self.tags = Some(TagFilter::default());
                }
            }
            Delta::ToolCall { .. } | Delta::Replay(_) | Delta::Usage(_) | Delta::Stop(_) => {}
        }
    }

    /// Publishes the text that the tag filter still held back.
    fn flush(&mut self) {
        if let Some(tags) = self.tags.take() {
            let (rest, _) = tags.finish();
            self.publisher.publish(Channel::Response, &rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model whose prompt template opens its thinking may reason about the tags of the answer.
    #[test]
    fn a_tag_in_what_was_thinking_hides_nothing_of_the_answer() {
        let head = StreamHead {
            stream_id: "stream".into(),
            phase: Phase::Synthesis,
            step_id: None,
            step_description: None,
            thread_id: "t".into(),
            run_id: "run".into(),
            trace_id: String::new(),
        };
        let mut tokens = TokenStream::open(&Hub::new(1 << 16), ThreadPk(1), head);
        let text = |text: &str| Delta::Text(text.to_owned());
        for delta in [text("Sources: <uiMetadata>. "), Delta::WasThinking, text("It is <b>four</b>.")] {
            tokens.publish(&delta);
        }
        assert_eq!(tokens.publisher.text(Channel::Response), "Sources: It is <b>four</b>.");
    }
}
