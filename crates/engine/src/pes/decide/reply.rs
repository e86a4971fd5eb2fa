//! A model's reply or failure: finds the call that it answers, and passes it to the module that asked.

use crate::domain::fault::Code;
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{self, FailureKind, ModelFailure, ModelReply};
use crate::pes::plan::make::{self, PlanReplyOutcome};
use crate::pes::plan::refine;
use crate::pes::run::{after_items, direct_answer, finish, simple, summary, synthesize};
use crate::pes::settle::{item, model_call};
use crate::pes::state::{ModelCall, ReceivedReply, RunPhase, text};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::pes::work::retry;
use crate::pes::work::step::{self, StepOutcome};

/// An answer to an attempt that is not open changes nothing.
pub(crate) fn on_model_replied(tx: &mut Tx<'_>, stream: &StreamId, attempt: u32, reply: ModelReply) -> HandlerResult {
    let Some((item, call)) = tx.state.open_model_call(stream, attempt) else { return Ok(EventOutcome::Ignored) };
    let phase = call.phase(tx.state.model_phase(item.as_ref()));
    let model = (reply.provider.as_str(), reply.model.as_str());
    let cost = model_call::count_usage(tx, stream, item.as_ref(), model, &reply.usage);
    let active = tx.active();
    active.counters.total_generation_ms += reply.total_ms;
    active.largest = active.largest.max(reply.usage.input_tokens.saturating_add(reply.usage.output_tokens));
    if reply.is_refusal() {
        return on_model_failed(tx, stream, attempt, refusal(&reply));
    }
    tx.active().counters.llm_calls += 1;
    let text = tx.record_stream_end(stream, item.as_ref(), phase, &reply, cost);
    tx.clear_model_call(item.as_ref());
    if tx.state.is_cancelling() {
        return Ok(EventOutcome::Applied);
    }
    if let Some(sums) = call.sums {
        summary::on_summary_reply(tx, item.as_ref(), sums, &reply.text, text);
        return Ok(EventOutcome::Applied);
    }
    let replied = ReceivedReply { stream, call: &call, reply: &reply, text };
    match (&item, tx.state.phase()) {
        (Some(item), _) => step_replied(tx, item, replied),
        (None, RunPhase::Synthesizing) => synthesize::on_reply(tx, replied),
        (None, RunPhase::Idle | RunPhase::Planning | RunPhase::Refining | RunPhase::Executing) => {
            plan_replied(tx, replied)
        }
    }
    Ok(EventOutcome::Applied)
}

fn step_replied(tx: &mut Tx<'_>, item: &ItemId, replied: ReceivedReply<'_>) {
    let outcome = if tx.state.simple.is_some() {
        simple::on_reply(tx, item, &replied)
    } else {
        step::on_reply(tx, item, replied)
    };
    match outcome {
        StepOutcome::Settled => {}
        StepOutcome::Completed { content, shown } => after_items::on_item_completed(tx, content, shown),
        StepOutcome::CutOff { content } => after_items::on_item_cut_off(tx, item, content),
    }
}

fn plan_replied(tx: &mut Tx<'_>, replied: ReceivedReply<'_>) {
    match make::on_reply(tx, &replied) {
        PlanReplyOutcome::Continues => {}
        PlanReplyOutcome::FirstStep { item, calls } => step::begin_with_calls(tx, &item, replied, calls),
        PlanReplyOutcome::Answers(text) => direct_answer::of_planner(tx, text),
        PlanReplyOutcome::Fails { code, message } => finish::fail(tx, code, message, model::Phase::Planning),
    }
}

/// Records the failure, and lets the slot wait for the next attempt, if there is one; both in one commit.
pub(crate) fn on_model_failed(
    tx: &mut Tx<'_>,
    stream: &StreamId,
    attempt: u32,
    failure: ModelFailure,
) -> HandlerResult {
    let Some((item, mut call)) = tx.state.open_model_call(stream, attempt) else { return Ok(EventOutcome::Ignored) };
    if failure.was_sent() {
        tx.active().counters.llm_calls += 1;
    }
    if let Some(usage) = &failure.usage {
        let (provider, model) = tx.state.run_settings().choice(call.choice).unwrap_or_default();
        let (provider, model) = (provider.to_owned(), model.to_owned());
        model_call::count_usage(tx, stream, item.as_ref(), (&provider, &model), usage);
    }
    let is_over = tx.state.is_cancelling();
    let delay = if is_over { None } else { retry::prepare_next(tx, item.as_ref(), &mut call, &failure) };
    tx.record_stream_error(stream, item.as_ref(), &failure, delay);
    tx.clear_model_call(item.as_ref());
    match delay {
        _ if is_over => {}
        Some(delay) => {
            call.next_attempt(Some(tx.stamp.now + delay));
            tx.put_model_call(item.as_ref(), call);
        }
        None => match call.sums.take() {
            Some(sums) => summary::on_summary_failed(tx, item.as_ref(), sums, call.failing_since),
            None => tx.name_model_in_errors(&call, |tx| give_up_model(tx, item.as_ref(), &call, &failure)),
        },
    }
    Ok(EventOutcome::Applied)
}

/// The attempt was in flight when its process stopped; another one follows at once.
pub(crate) fn on_model_interrupted(tx: &mut Tx<'_>, item: Option<&ItemId>, mut call: ModelCall) {
    let Some(stream) = call.stream().cloned() else { return };
    model_call::count_reserved(tx, item, &call);
    let failure = ModelFailure::new(FailureKind::Interrupted, "the process stopped while the model answered");
    tx.record_stream_error(&stream, item, &failure, Some(0));
    call.next_attempt(Some(tx.stamp.now));
    retry::restart_retry_time(tx, &mut call);
    tx.put_model_call(item, call);
}

fn give_up_model(tx: &mut Tx<'_>, item: Option<&ItemId>, call: &ModelCall, failure: &ModelFailure) {
    let code = match failure.kind {
        FailureKind::Refused => Code::ModelRefused,
        FailureKind::TooLong => Code::PromptTooLong,
        FailureKind::TooLarge => Code::ReplyTooLarge,
        FailureKind::Saturated => Code::ProviderSaturated,
        FailureKind::Retry
        | FailureKind::Unreachable
        | FailureKind::Broken
        | FailureKind::Incomplete
        | FailureKind::Interrupted
        | FailureKind::Overflow
        | FailureKind::BreakerOpen => Code::ModelFailed,
    };
    // Messages about "the provider" get its name here, where it is known.
    let (provider, _) = tx.state.run_settings().choice(call.choice).unwrap_or_default();
    let message = match failure.message.strip_prefix("the provider ") {
        Some(rest) => format!("{provider} {rest}"),
        None => failure.message.clone(),
    };
    let message = text::cut(&message, 1000);
    match (item, tx.state.phase()) {
        (Some(item), _) => item::fail(tx, item, code.as_str(), message),
        (None, RunPhase::Synthesizing) => synthesize::on_failed(tx, &message),
        (None, RunPhase::Refining) if tx.state.is_mid_run() => refine::on_failed(tx, code, &message),
        (None, RunPhase::Idle | RunPhase::Planning | RunPhase::Refining | RunPhase::Executing) => {
            finish::fail(tx, code, message, model::Phase::Planning);
        }
    }
}

/// Asked again, the same model would refuse again; another one may not.
fn refusal(reply: &ModelReply) -> ModelFailure {
    let words = reply.text.trim();
    let said = if words.is_empty() { "without a word".to_owned() } else { format!("and said: {words}") };
    ModelFailure::new(FailureKind::Refused, format!("the model refused {said}"))
}
