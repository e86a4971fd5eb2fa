//! A model answered or failed: whose call it was, and what becomes of it.

use super::execute::Replied;
use super::rows;
use super::state::{ModelCall, ModelSlot, Phase};
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::Code;
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{self, FailureKind, ModelFailure, ModelReply};
use crate::domain::observation::ObservationType;
use crate::domain::usage::{ModelUse, Nanos};

impl Transition<'_> {
    pub fn model_replied(&mut self, stream: &StreamId, attempt: u32, reply: ModelReply) -> Handled {
        let Some((item, call)) = self.open_call(stream, attempt) else { return Ok(Taken::No) };
        let phase = call.phase(self.model_phase(item.as_ref()));
        let cost = self.account_for(stream, item.as_ref(), &reply);
        if reply.is_refusal() {
            return self.model_failed(stream, attempt, refused(&reply));
        }
        self.active().counters.llm_calls += 1;
        let text = self.record_stream_end(stream, item.as_ref(), phase, &reply, cost);
        self.clear_call(item.as_ref());
        if self.active().cancel.is_some() {
            return Ok(Taken::Yes);
        }
        if let Some(sums) = call.sums {
            self.summed_up(item.as_ref(), sums, &reply.text, text);
            return Ok(Taken::Yes);
        }
        let replied = Replied { stream, call: &call, reply: &reply, text };
        match (&item, self.state.phase()) {
            (Some(item), _) => self.step_replied(item, replied),
            (None, Phase::Synthesizing) => self.synthesis_replied(replied),
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => self.plan_replied(replied),
        }
        Ok(Taken::Yes)
    }

    /// Adds the call to the run's sums and writes what it took; returns its cost, if its price is known.
    fn account_for(&mut self, stream: &StreamId, item: Option<&ItemId>, reply: &ModelReply) -> Option<Nanos> {
        let price = self.world.models.price(&reply.provider, &reply.model);
        let cost = price.map(|price| price.of(&reply.usage));
        let counters = &mut self.active().counters;
        counters.usage.add(&reply.usage);
        counters.total_generation_ms += reply.total_ms;
        let took = reply.usage.input_tokens + reply.usage.output_tokens;
        if let Some(cost) = cost {
            *counters.cost_nanos.get_or_insert(0) += cost;
        }
        let active = self.active();
        active.largest = active.largest.max(took);
        let plain = |text: &str| text.replace(char::is_control, " ");
        let used = ModelUse {
            run: self.run().run_id.clone(),
            item: item.map(|id| plain(id.as_str()).as_str().into()),
            provider: plain(&reply.provider),
            model: plain(&reply.model),
            usage: reply.usage.clone(),
            cost_nanos: cost,
        };
        self.rows.push(rows::used(stream, self.stamp.now, &used));
        cost
    }

    /// One commit: the error is recorded, and the slot waits for its next attempt, if there is one.
    pub fn model_failed(&mut self, stream: &StreamId, attempt: u32, failure: ModelFailure) -> Handled {
        let Some((item, mut call)) = self.open_call(stream, attempt) else { return Ok(Taken::No) };
        if failure.kind.was_sent() {
            self.active().counters.llm_calls += 1;
        }
        let is_over = self.active().cancel.is_some();
        let delay = if is_over { None } else { self.prepare_next(&mut call, &failure) };
        self.record_stream_error(stream, item.as_ref(), &failure, delay);
        self.clear_call(item.as_ref());
        match delay {
            _ if is_over => {}
            Some(delay) => {
                call.attempt += 1;
                call.reserved = None;
                call.slot = ModelSlot::Ready { not_before: (delay > 0).then_some(self.stamp.now + delay) };
                self.put_call(item.as_ref(), call);
            }
            None => match call.sums.take() {
                Some(sums) => self.not_summed_up(item.as_ref(), sums, call.failing_since),
                None => self.model_gave_up(item.as_ref(), &failure),
            },
        }
        Ok(Taken::Yes)
    }

    /// The attempt was under way when its process died; another follows at once.
    pub fn model_interrupted(&mut self, item: Option<&ItemId>, mut call: ModelCall) {
        let Some(stream) = call.stream().cloned() else { return };
        let failure = interrupted("the process stopped while the model answered");
        self.record_stream_error(&stream, item, &failure, Some(0));
        call.attempt += 1;
        call.reserved = None;
        call.slot = ModelSlot::Ready { not_before: None };
        self.put_call(item, call);
    }

    fn model_gave_up(&mut self, item: Option<&ItemId>, failure: &ModelFailure) {
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
        let message = super::record::cut(&failure.message, 1000);
        match (item, self.state.phase()) {
            (Some(item), _) => self.fail_item(item, code.as_str(), message),
            (None, Phase::Synthesizing) => self.synthesis_failed(&message),
            (None, Phase::Refining) if self.is_mid_run() => self.refinement_failed(code, &message),
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => {
                self.fail_run(code, message, model::Phase::Planning);
            }
        }
    }

    pub fn record_stream_error(
        &mut self,
        stream: &StreamId,
        item: Option<&ItemId>,
        failure: &ModelFailure,
        delay: Option<i64>,
    ) {
        let mut body = serde_json::json!({
            "streamId": stream, "code": failure.kind, "message": super::record::cut(&failure.message, 2000),
            "retryable": delay.is_some(),
        });
        if let Some(status) = failure.http_status {
            body["httpStatus"] = status.into();
        }
        if let Some(delay) = delay {
            body["retryInMs"] = delay.into();
        }
        self.record(ObservationType::LlmStreamError, item, "Model call failed", body);
    }

    pub fn open_call(&self, stream: &StreamId, attempt: u32) -> Option<(Option<ItemId>, ModelCall)> {
        let main = self.state.head.active.as_ref().and_then(|active| active.model.as_ref());
        if let Some(call) = main.filter(|call| call.answers(stream, attempt)) {
            return Some((None, call.clone()));
        }
        self.state.list.open().find_map(|item| {
            let call = item.track.work.as_ref()?.model.as_ref()?;
            call.answers(stream, attempt).then(|| (Some(item.def.id.clone()), call.clone()))
        })
    }

    fn clear_call(&mut self, item: Option<&ItemId>) {
        match item {
            Some(item) => {
                self.work(item, |work| work.model = None);
            }
            None => self.active().model = None,
        }
    }

    pub fn put_call(&mut self, item: Option<&ItemId>, call: ModelCall) {
        match item {
            Some(item) => {
                self.work(item, |work| work.model = Some(call));
            }
            None => self.active().model = Some(call),
        }
    }

    pub fn model_phase(&self, item: Option<&ItemId>) -> model::Phase {
        match (item, self.state.phase()) {
            (Some(_), _) => model::Phase::Execution,
            (None, Phase::Synthesizing) => model::Phase::Synthesis,
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => model::Phase::Planning,
        }
    }
}

/// Asked again, it would refuse again: another model may not.
fn refused(reply: &ModelReply) -> ModelFailure {
    let words = reply.text.trim();
    let said = if words.is_empty() { "without a word".to_owned() } else { format!("and said: {words}") };
    ModelFailure { kind: FailureKind::Refused, ..interrupted(&format!("the model refused {said}")) }
}

pub(super) fn interrupted(message: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Interrupted,
        message: message.to_owned(),
        http_status: None,
        retry_after_ms: None,
        partial_text: String::new(),
    }
}
